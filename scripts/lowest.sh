#!/usr/bin/env bash
# Run tests with the lowest version of each package that pyproject.toml allows, in an environment of their own below
# .rota/lowest. Arguments are pytest's, and stand for the tests of `make quick`.
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- tests/unit tests/contract -m "not (needs or hypothesis or slow)"
home=.rota/lowest
mkdir -p "$home"

echo "lowest: resolving"
compile() { scripts/uv.sh pip compile --quiet --python .venv/bin/python --no-header --no-annotate --all-extras pyproject.toml "$@"; }
rm -f "$home/lowest.txt"
compile --resolution lowest-direct --output-file "$home/lowest.txt"
# What the tests need beside: locked versions, where they fit. The generator of protobuf code fits no old protobuf, and
# what it is for does not depend on versions.
sed -n 's/^\([a-z][^ ]*==[^ ]*\) .*/\1/p' requirements/dev.txt > "$home/all.txt"
echo "grpcio-tools; sys_platform == 'none'" > "$home/without.txt"
compile --group dev --constraint "$home/lowest.txt" --override "$home/without.txt" --output-file "$home/all.txt"

echo "lowest: installing"
scripts/uv.sh venv --quiet --clear --python .venv/bin/python "$home/venv"
scripts/uv.sh pip install --quiet --python "$home/venv/bin/python" --requirement "$home/all.txt"
scripts/uv.sh pip install --quiet --python "$home/venv/bin/python" --no-deps --no-build-isolation --editable .
"$home/venv/bin/python" -m pytest -q -n 4 -p no:cacheprovider -k "not is_that_of_the_contract" "$@"
