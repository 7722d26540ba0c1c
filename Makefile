# Every target sets up what it needs in .venv, once. `make help` lists them.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
CORE   := $(VENV)/.stamp-core
DEV    := $(VENV)/.stamp-dev

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help run test check bench test-slow test-browser clean

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /make \1|/' | \
	    while IFS='|' read -r name text; do printf '%-16s %s\n' "$$name" "$$text"; done

run: $(CORE)  ## train on a shipped problem, and show the result
	@mkdir -p runs
	@$(BIN)/opdop run media-streaming --episodes 2e5 --figure runs/media-streaming.svg

test: check  ## what CI runs: the same as make check

check: $(DEV)  ## lint, format, types, import layers, tests
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

test-slow: $(DEV)  ## the long tests, with ten times more random examples
	@echo "== pytest -m slow"
	@HYPOTHESIS_PROFILE=deep $(BIN)/python -m pytest -n 2 -m slow

test-browser: $(DEV)  ## the report in a real Chromium; installs it with apt-get if it is missing (needs root)
	@command -v chromedriver > /dev/null || { apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver fonts-dejavu-core; }
	@echo "== pytest tests/report/test_browser.py"
	@OPDOP_BROWSER=must $(BIN)/python -m pytest tests/report/test_browser.py

bench: $(DEV)  ## run the benchmarks (BENCH="names" to choose)
	@$(BIN)/python -m benchmarks $(BENCH)

clean:  ## remove .venv, caches and build output
	@rm -rf $(VENV) build dist src/*.egg-info .benchmarks .hypothesis .import_linter_cache \
	    .mypy_cache .pytest_cache .ruff_cache
	@find src tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} +

# The stamps are newer than what they were made from, so pip runs only after a change.
# The dev install holds the core install, so it stamps both.

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
