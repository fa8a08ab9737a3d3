#!/usr/bin/env bash
# Install the named Debian packages where that is allowed without asking; else say what to install, and fail.
set -euo pipefail

as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo -n); fi
if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
  echo "Needed, and not installed: $*. On Debian: sudo apt-get install $*" >&2
  exit 1
fi
echo "Installing $* …"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
