#!/usr/bin/env bash
# Run tests on every Python that Rota is for and this machine has, each with the locked packages in an environment of its
# own below .rota/pythons. What was not tried is named at the end.
#
# Arguments are pytest's, and stand for the tests of `make quick`: scripts/pythons.sh tests/unit/kit
# PYTHONS="3.12 3.13" tries only these.
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- tests/unit tests/contract -m "not (needs or hypothesis or slow)"

find_python() { # VERSION
    local each
    for each in "$(command -v "python$1" || true)" \
        "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python \
        "$(scripts/uv.sh python find --no-project "$1" 2>/dev/null || true)"; do
        # pyenv puts commands on PATH that only say that there is no such Python.
        if [ -n "$each" ] && "$each" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
            echo "$each"
            return
        fi
    done
    return 1
}

passed="" failed="" missing=""
for version in ${PYTHONS:-3.11 3.12 3.13 3.14}; do
    python=$(find_python "$version") || { missing+=" $version"; continue; }
    home=.rota/pythons/$version
    echo "pythons: $("$python" --version) ($python)"
    scripts/uv.sh venv --quiet --clear --python "$python" "$home"
    scripts/uv.sh pip install --quiet --python "$home/bin/python" --require-hashes --requirement requirements/dev.txt
    scripts/uv.sh pip install --quiet --python "$home/bin/python" --no-deps --no-build-isolation --editable .
    if "$home/bin/python" -m pytest -q -n 4 -p no:cacheprovider "$@"; then passed+=" $version"; else failed+=" $version"; fi
done
echo "pythons: passed:${passed:- none}; failed:${failed:- none}; not tried, for they are not installed:${missing:- none}"
[ -z "$failed" ] && [ -n "$passed" ]
