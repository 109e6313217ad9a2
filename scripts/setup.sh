#!/usr/bin/env bash
# Make .venv with everything the lock file names, and Rota itself in editable form. Does nothing when it is up to date.
#
# pip installs uv, and uv installs the rest, in a tenth of the time. Where uv cannot (no build for this system, an index
# that only pip is configured for), pip does it: the lock file is the same.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "setup: $("$python" --version) is too old; Rota needs Python 3.11 or newer (set PYTHON=/path/to/python3.11)" >&2
    exit 1
}

stamp=.venv/.set-up
want=$(cat requirements/dev.txt pyproject.toml | sha256sum)
[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && exit 0

if ! [ -x .venv/bin/pip ]; then
    # Debian ships venv apart from Python.
    "$python" -c 'import ensurepip' 2>/dev/null || {
        [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || {
            echo "setup: this Python has no venv; install your system's python3-venv package" >&2
            exit 1
        }
        echo "setup: installing python3-venv"
        apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
    }
    "$python" -m venv .venv
fi

with_pip() { .venv/bin/pip install --quiet --disable-pip-version-check "$@"; }

with_uv() { scripts/uv.sh pip install --quiet --python .venv/bin/python --compile-bytecode "$@"; }

echo "setup: installing the locked packages into .venv"
only_uv=$(mktemp)
trap 'rm -f "$only_uv"' EXIT
awk '/^[a-z]/ { wanted = /^uv==/ } wanted' requirements/dev.txt > "$only_uv"
if ! { with_pip --require-hashes --requirement "$only_uv" && with_uv --require-hashes --requirement requirements/dev.txt; }; then
    echo "setup: uv could not; installing with pip (about two minutes)"
    with_pip --require-hashes --requirement requirements/dev.txt
fi
with_pip --no-deps --no-build-isolation --editable .
.venv/bin/rota --version >/dev/null
echo "$want" > "$stamp"
