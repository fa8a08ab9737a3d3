#!/usr/bin/env bash
# See to it that the programs that the tests drive are here.
set -euo pipefail

missing=()
command -v node >/dev/null || missing+=(nodejs)
command -v chromium >/dev/null || missing+=(chromium)
command -v redis-server >/dev/null || missing+=(redis-server)
command -v pg_ctl >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/pg_ctl' >/dev/null || missing+=(postgresql)
if [ ${#missing[@]} -gt 0 ]; then "$(dirname "$0")/apt_install.sh" "${missing[@]}"; fi
