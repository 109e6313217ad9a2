# Two commands are enough: `make demo` to see Rota work, `make test` to see that it does.
# Start-up figures and forks depend on cached bytecode, so caching is on whatever the caller's environment says.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
PY := .venv/bin/python
QUICK := not (needs or hypothesis or slow)

.PHONY: help setup demo quick laws compiled obtained test test-all check format bench simulate chaos lock pythons lowest wheel docs proto clean

help:            ## show this list
	@awk -F':.*## ' '/^[a-z%-]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:           ## make .venv with a working .venv/bin/rota
	@scripts/setup.sh

demo: setup      ## all four kinds of work on three nodes; the leader is killed, and nothing is lost (SQLite, about 40 s)
	@$(PY) examples/demo.py

quick: setup     ## lint, types, imports, unit tests, and the laws on memory and SQLite: no server, no seeds
	@$(MAKE) --no-print-directory -j2 check laws

laws: compiled
	@MAKEFLAGS= $(PY) -m pytest -n 4 -q tests/unit tests/contract -m "$(QUICK)"

# In a fresh clone each worker of pytest would compile all tests by itself: one process does it for them.
compiled: setup
	@[ -d tests/unit/__pycache__ ] || $(PY) -m pytest -q --collect-only >/dev/null 2>&1 || true

obtained: compiled
	@$(PY) -m tests.kit.obtain

test: setup      ## lint, types, imports, then everything once on real servers
	@$(MAKE) --no-print-directory -j2 check obtained
	@$(PY) -m pytest -n 6 -q --durations=30

test-all: setup  ## the matrix: every test in every way, other Pythons, 200 seeds of each scenario, fuzzers, chaos
	@$(MAKE) --no-print-directory -j2 check obtained
	@$(PY) -m pytest -n 6 -q --durations=30 --matrix
	@$(MAKE) --no-print-directory pythons
	@$(MAKE) --no-print-directory lowest
	@$(MAKE) --no-print-directory simulate SEEDS=$(or $(SEEDS),200)
	@$(MAKE) --no-print-directory show-safety
	@$(MAKE) --no-print-directory chaos MINUTES=3

check: setup     ## format, lint, types, import contract
	@.venv/bin/ruff format --check --quiet . || (echo "run: make format"; exit 1)
	@.venv/bin/ruff check --quiet .
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-logo 2>/dev/null || .venv/bin/lint-imports

format: setup    ## format and sort imports
	@.venv/bin/ruff check --fix --quiet . ; .venv/bin/ruff format .

bench: setup     ## measure everything beside bare drivers and peers, into .rota/bench.md or REPORT=FILE.md (never fails the build)
	@$(PY) -m tests.kit.obtain
	@$(PY) -m benchmarks --everything --report $(or $(REPORT),.rota/bench.md) $(if $(ROUNDS),--rounds $(ROUNDS))

simulate: setup  ## deep run of the simulator, SEEDS=n of every scenario (default 500)
	@for scenario in fleet election resources placement services peers relay jobs streams; do \
	  .venv/bin/rota simulate $$scenario --seeds $(or $(SEEDS),500) || exit 1; done

chaos: setup     ## a real fleet with all kinds under kills, freezes, cuts, outages: make chaos MINUTES=3 STORE=postgresql SEED=1
	@$(PY) -m tests.kit.obtain
	@$(PY) -m shows.chaos $(if $(MINUTES),--minutes $(MINUTES)) $(if $(STORE),--store $(STORE)) $(if $(SEED),--seed $(SEED))

show-%: setup    ## run what an issue must show, e.g. make show-ground, or some of its parts: PARTS=word,word
	@$(PY) -m tests.kit.obtain
	@$(PY) -m shows.$*

lock: setup      ## renew requirements/dev.txt from pyproject.toml, image.txt and build.txt for the image, peers.txt for the bench, proto.txt
	@.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --upgrade --group dev --all-extras pyproject.toml -o requirements/dev.txt
	@.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate --upgrade --all-extras --constraint requirements/dev.txt pyproject.toml -o requirements/image.txt
	@.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate --upgrade --constraint requirements/dev.txt requirements/build.in -o requirements/build.txt
	@.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --upgrade requirements/peers.in -o requirements/peers.txt
	@.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate requirements/proto.in -o requirements/proto.txt

pythons: setup   ## the tests of quick on every Python from 3.11 to 3.14 that is installed; says which ones were not tried
	@scripts/pythons.sh

lowest: setup    ## the tests of quick with the lowest version of each package that pyproject.toml allows
	@scripts/lowest.sh

wheel: setup     ## build dist/rota-*.whl
	@rm -f dist/rota-*.whl
	@$(PY) -m hatchling build --target wheel

docs: setup      ## write the tables and diagrams of the manual that follow from the code
	@$(PY) scripts/reference.py

proto: setup     ## add to the contracts what they lack, and regenerate the checked-in protobuf code
	@$(PY) scripts/contract.py
	@scripts/proto.sh

clean:           ## remove what make made
	@rm -rf .venv .venv-peers .venv-proto .import_linter_cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .rota
