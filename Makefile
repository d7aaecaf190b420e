# Every target works alone on a fresh clone; a second run finds its stamp in .venv and starts at once.
.DEFAULT_GOAL := help
.PHONY: help serve test install check bench clean

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
STAMPS := .venv/stamps

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' Makefile

serve: $(STAMPS)/service ## install the service, migrate, load the shipped results, serve on 127.0.0.1:8000
	$(BIN)/shardwise serve

test: $(STAMPS)/test ## install what the tests need, and run them
	$(BIN)/python -m pytest

install: $(STAMPS)/test $(STAMPS)/check ## everything that development needs, in .venv

check: $(STAMPS)/test $(STAMPS)/check ## style, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMPS)/test ## the benchmarks; they fail beyond their limits
	@for script in tests/benchmark/bench_*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean: ## remove .venv and caches, not the database
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo 'Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11'; exit 1; }
	$(PYTHON) -m venv .venv

$(STAMPS)/service: pyproject.toml | .venv/bin/python
	$(PIP) --editable .
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/test: pyproject.toml | .venv/bin/python
	$(PIP) --editable '.[trainer,test]'
	@mkdir -p $(STAMPS) && touch $@ $(STAMPS)/service

$(STAMPS)/check: pyproject.toml | .venv/bin/python
	$(PIP) --editable '.[check]'
	@mkdir -p $(STAMPS) && touch $@ $(STAMPS)/service
