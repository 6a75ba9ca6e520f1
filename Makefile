# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Only the local stack's folder and the virtual environment are ever written to.
.DEFAULT_GOAL := help
.PHONY: help setup demo test check up down bench requirements clean

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1	\2/' | expand -t 22

setup: $(STAMP) ## virtual environment with the pinned requirements

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 setup"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "venv is missing: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

demo: setup ## the whole flow on a scripted web: import, six windows, verdict
	$(BIN)/backlinks demo

test: setup ## every test (unit, real MySQL, ClickHouse engine, real HTTP, end to end)
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

check: setup ## style, types, import rules
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

up: setup ## start the local stack: MySQL, ClickHouse front, Dagster webserver and daemon
	$(BIN)/backlinks stack up

down: ## stop it
	@if test -x $(BIN)/backlinks; then $(BIN)/backlinks stack down; fi

bench: setup ## the benchmarks, as tables
	$(BIN)/python -m tests.bench

requirements: $(VENV)/bin/python ## compile requirements/*.in to pinned, hashed files without host names
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --generate-hashes --no-header --no-emit-index-url --no-emit-find-links --no-strip-extras requirements/dev.in -o requirements/dev.txt
	$(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-emit-index-url --no-emit-find-links --no-strip-extras -c requirements/dev.txt requirements/runtime.in -o requirements/runtime.txt

clean: down ## stop everything and delete what it wrote
	rm -rf .stack $(VENV)
