#!/usr/bin/env bash
# uv of .venv, as pip is configured: uv itself does not read which index pip uses. It downloads no Python.
set -euo pipefail
venv=$(cd "$(dirname "$0")/.." && pwd)/.venv
if [ -z "${UV_DEFAULT_INDEX:-}" ] && index=$("$venv/bin/pip" config get global.index-url 2>/dev/null); then
    export UV_DEFAULT_INDEX=$index
fi
export UV_PYTHON_DOWNLOADS=never
exec "$venv/bin/uv" "$@"
