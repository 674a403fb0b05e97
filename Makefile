# make run: install and show the flagship experiment.   make test: install and pass the tests.
.DEFAULT_GOAL := help
.PHONY: help run test test-slow lint bench docs docs-full lock clean

VENV := .venv
BIN := $(VENV)/bin
FLAGSHIP := grokking
PYTHON ?= $(firstword $(foreach python,python3.13 python3.12 python3.11 python3 python,$(shell $(python) -c 'import sys, ensurepip; assert sys.version_info >= (3, 11); print("$(python)")' 2>/dev/null)))
# One numerical thread per test worker: two workers share two cores instead of fighting for them.
ONE_THREAD := NPROC=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 XLA_FLAGS="--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

help:
	@echo "make run        install limen and run the flagship experiment"
	@echo "make test       install limen and run the tests (under 8 minutes on 2 quiet cores)"
	@echo "make test-slow  the heavier tests of theory against simulation"
	@echo "make lint       ruff, pyright, import contracts"
	@echo "make bench      the benchmark suite, and a table of what users wait for"
	@echo "make docs       the documentation, in docs/_build/html"
	@echo "make docs-full  the same, every experiment of the gallery run anew"

$(VENV)/pyvenv.cfg:
	@test -n "$(PYTHON)" || { echo "limen needs Python 3.11 or newer with ensurepip (on Debian: the packages python3 and python3-venv)."; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements.lock pyproject.toml $(VENV)/pyvenv.cfg
	@echo "Installing limen into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.run
	@echo "Installing the tools for tests ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

run: $(VENV)/.run
	@$(BIN)/limen run $(FLAGSHIP)

test: $(VENV)/.dev
	@$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

test-slow: $(VENV)/.dev
	@$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist loadfile -m slow

lint: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright
	@$(BIN)/lint-imports

bench: $(VENV)/.dev
	@$(ONE_THREAD) $(BIN)/python -m pytest benchmarks -p no:xdist
	@$(BIN)/python benchmarks/table.py

docs: $(VENV)/.dev
	@$(BIN)/python -m sphinx -W -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

docs-full: $(VENV)/.dev
	@LIMEN_DOCS=full $(BIN)/python -m sphinx -W -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

lock:
	uv pip compile pyproject.toml --universal --fork-strategy fewest --generate-hashes --no-header --python-version 3.11 -q --extra dev -o requirements-dev.lock
	uv pip compile pyproject.toml --universal --fork-strategy fewest --generate-hashes --no-header --python-version 3.11 -q --extra build -c requirements-dev.lock -o requirements.lock

clean:
	rm -rf $(VENV) docs/_build .pytest_cache .ruff_cache .benchmarks
