# One virtual environment for everything; uv where it exists, venv and pip where not.
VENV    := .venv
BIN     := $(VENV)/bin
PYTHON  ?= python3
UV      := $(shell command -v uv 2>/dev/null)
STAMP   := $(VENV)/.installed-dev
DEMO_STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format serve bench lock clean

help: ## Show the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Warploom needs Python 3.11 or newer; set PYTHON=/path/to/it."; exit 1; }
ifdef UV
	uv venv --quiet --python $(PYTHON) $(VENV)
else
	$(PYTHON) -m venv $(VENV)
endif

ifdef UV
INSTALL = uv pip install --quiet --python $(BIN)/python
else
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
endif

$(DEMO_STAMP): requirements/base.txt pyproject.toml | $(BIN)/python
	$(INSTALL) --require-hashes -r requirements/base.txt
	$(INSTALL) --no-deps --editable .
	@touch $@

$(STAMP): requirements/dev.txt pyproject.toml | $(BIN)/python
	$(INSTALL) --require-hashes -r requirements/dev.txt
	$(INSTALL) --no-deps --editable .
	@touch $@ $(DEMO_STAMP)

setup: $(STAMP) ## Make .venv with everything, for working on Warploom

demo: $(DEMO_STAMP) ## Two agents share two fake cards, for real, in under a minute
	$(BIN)/warploom demo

test: $(STAMP) ## Run every test on a real Postgres and a real Valkey
	$(BIN)/python -m pytest $(ARGS)

check: $(STAMP) ## Format, lint, types, layers, freshness of the docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m warploom.cli.reference --check docs/reference

format: $(STAMP) ## Format the code and mend what lint can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

serve: $(DEMO_STAMP) ## Run the whole stack in the foreground
	$(BIN)/warploom daemon

bench: $(STAMP) ## Measure against floors and peers in the same run
	$(BIN)/python -m benchmarks $(ARGS)

lock: $(STAMP) ## Renew the hashed requirements from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header pyproject.toml -o requirements/base.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --extra dev -c requirements/base.txt pyproject.toml -o requirements/dev.txt

clean: ## Remove the virtual environment
	rm -rf $(VENV)
