# Each target first sets up .venv if it is missing or out of date. `make help` lists the targets.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
CORE   := $(VENV)/.stamp-core
DEV    := $(VENV)/.stamp-dev

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help run test check bench docs docs-site gallery test-slow test-browser test-pythons test-lowest attack clean

help:  ## list these commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /make \1|/' | \
	    while IFS='|' read -r name text; do printf '%-16s %s\n' "$$name" "$$text"; done

run: $(CORE)  ## train on a shipped problem and print the results
	@mkdir -p runs
	@$(BIN)/opdop run media-streaming --episodes 2e5 --figure runs/media-streaming.svg

test: check  ## run all checks and tests, as CI does; the same as make check

check: $(DEV)  ## check lint, format, types and import layers, and run the tests
	@echo "== ruff check"
	@$(BIN)/ruff check
	@echo "== ruff format"
	@$(BIN)/ruff format --check
	@echo "== mypy --strict"
	@$(BIN)/mypy --strict src
	@echo "== import layers"
	@$(BIN)/lint-imports --no-logo
	@echo "== pytest"
	@$(BIN)/python -m pytest -n 2

test-slow: $(DEV)  ## run the long tests, with ten times more random examples, and the kernels with bounds checked
	@echo "== pytest -m slow"
	@HYPOTHESIS_PROFILE=deep $(BIN)/python -m pytest -n 2 -m slow
	@echo "== kernels with Numba's bounds checking"  # the tests of the cache set these variables themselves
	@NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(VENV)/bounds-checked $(BIN)/python -m pytest -n 2 tests/kernels \
	    --ignore tests/kernels/test_caching.py tests/algorithms/test_counts.py tests/algorithms/test_sizes.py tests/runs/test_training.py

test-browser: $(DEV)  ## test the report in Chromium; installs it with apt-get if it is missing (needs root)
	@command -v chromedriver > /dev/null || { apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver fonts-dejavu-core; }
	@echo "== pytest tests/report/test_browser.py"
	@OPDOP_BROWSER=must $(BIN)/python -m pytest tests/report/test_browser.py

test-pythons: $(CORE)  ## test with every Python from 3.11 on that is installed, each in an environment of its own
	@$(BIN)/python -m tools.versions pythons $(TESTS)

test-lowest: $(CORE)  ## test with the lowest version of each dependency that pyproject.toml allows
	@$(BIN)/python -m tools.versions lowest $(TESTS)

attack: $(DEV)  ## attack files, API, command line, disk and processes for ten minutes; prints the table of docs/reliability.md
	@$(BIN)/python -m attack $(ATTACK)

bench: $(DEV)  ## run the benchmarks (BENCH="learn solve" runs these two, BENCH=--list lists all)
	@$(BIN)/python -m benchmarks $(BENCH)

docs: $(DEV)  ## build the documentation's site into site/, without any network
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open site/index.html"

docs-site: docs

gallery: $(CORE)  ## renew docs/problems.md, the table in README.md and the pictures in docs/images
	@$(BIN)/python -m tools.gallery docs
	@$(BIN)/opdop run media-streaming --episodes 2e5 --figure docs/images/media-streaming-run.svg
	@$(BIN)/opdop run factored --preset certified --episodes 2e5 --bound --figure docs/images/factored-certified.svg
	@rm -rf runs/docs
	@$(BIN)/opdop compare media-streaming --algorithms opdop,oppo --seeds 5 --out runs/docs
	@cp runs/docs/report/figures/media-streaming-plane.svg docs/images/media-streaming-path.svg

clean:  ## remove .venv, caches and build output
	@rm -rf $(VENV) .venvs build dist site src/*.egg-info .benchmarks .hypothesis .import_linter_cache \
	    .mypy_cache .pytest_cache .ruff_cache
	@find src tests attack benchmarks examples studies tools -type d -name __pycache__ -prune -exec rm -rf {} +

# A stamp file is newer than the files it depends on, so pip runs only after one of them has changed.
# The dev install includes the core install, so it writes both stamps.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "opdop needs Python 3.11 or newer, but $(PYTHON) is: $$($(PYTHON) --version 2>&1)" >&2; \
	    echo "name another one: make PYTHON=python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(CORE): pyproject.toml constraints.txt | $(BIN)/python
	@echo "setting up $(VENV) (once) ..."
	@$(PIP) -e .
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	@echo "setting up $(VENV) (once) ..."
	@$(PIP) -e '.[dev]'
	@touch $(CORE) $@
