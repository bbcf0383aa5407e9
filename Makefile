# One virtual environment for everything; uv where it exists, venv and pip where not.
VENV       := .venv
BIN        := $(VENV)/bin
UV         := $(shell command -v uv 2>/dev/null)
STAMP      := $(VENV)/.installed
DEV_STAMP  := $(VENV)/.installed-dev
BUILD      := requirements/build.txt

# The first Python that is new enough; PYTHON=/path/to/it overrides.
ifndef PYTHON
PYTHON := $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
  "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$name"; break; }; done)
endif

.DEFAULT_GOAL := help
.PHONY: help setup demo test faults torture check format serve bench lock clean
.NOTPARALLEL:

help: ## Show the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@test -n "$(PYTHON)" && "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Warploom needs Python 3.11 or newer, and none was found. Install one, or name it: make PYTHON=/path/to/python3.12"; exit 1; }
ifdef UV
	$(UV) venv --quiet --clear --python "$(PYTHON)" $(VENV)
else
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) cannot make virtual environments: its venv or ensurepip module is missing. Install it (Debian, Ubuntu: apt install python3-venv), or install uv, then try again."; exit 1; }
	"$(PYTHON)" -m venv --clear $(VENV)
endif

ifdef UV
INSTALL := $(UV) pip install --quiet --python $(BIN)/python
HAS_INSTALLER := :
else
INSTALL := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check
HAS_INSTALLER := $(BIN)/python -c 'import pip' 2>/dev/null || $(BIN)/python -m ensurepip >/dev/null
endif

# Everything is checked by hash, what builds the editable wheel included.
define install
	@$(HAS_INSTALLER)
	$(INSTALL) --require-hashes -r $(1)
	$(INSTALL) --no-deps --no-build-isolation --editable .
endef

$(STAMP): requirements/base.txt $(BUILD) pyproject.toml | $(BIN)/python
	@echo "Installing Warploom into $(VENV) (once; about a minute) ..."
	$(call install,$(BUILD) -r requirements/base.txt)
	@touch $@

$(DEV_STAMP): requirements/dev.txt pyproject.toml | $(BIN)/python
	@echo "Installing Warploom and its tools into $(VENV) (once; about a minute) ..."
	$(call install,requirements/dev.txt)
	@touch $@ $(STAMP)

setup: $(DEV_STAMP) ## Make .venv with everything, for working on Warploom

demo: $(STAMP) ## Two agents share two fake cards, for real, in under a minute
	$(BIN)/warploom demo

# Each worker has a Postgres and a Valkey of its own; what ARGS choose runs in one process, where a debugger works.
test: $(DEV_STAMP) ## Run every test on a real Postgres and a real Valkey (ARGS="-k wait")
	$(BIN)/python -m pytest $(if $(ARGS),$(ARGS),--numprocesses auto --dist loadfile)

STEPS ?= 300

faults: $(DEV_STAMP) ## Draw faults by chance against a whole stack (STEPS=5000 SEED=7)
	PYTHONPATH=tests $(BIN)/python -m faults $(STEPS) $(SEED)

HANDOVERS ?= 300

torture: $(DEV_STAMP) ## Hand cards over while servers, Redis and Postgres are killed or cut (HANDOVERS=50 SEED=7)
	PYTHONPATH=tests $(BIN)/python -m torture $(HANDOVERS) $(SEED)

check: $(DEV_STAMP) ## Format, lint, types, layers, freshness of the reference
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m warploom.cli.reference --check docs/reference

format: $(DEV_STAMP) ## Format the code and mend what lint can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

serve: $(STAMP) ## Run the whole stack in the foreground
	$(BIN)/warploom daemon

# The peers of the benchmarks have pins of their own, and one of them needs Python 3.12. Without them the floors remain.
PEERS       := .venv-bench
PEERS_STAMP := $(PEERS)/.installed
PEERS_PYTHON ?= $(shell for name in python3.14 python3.13 python3.12 "$$HOME"/.pyenv/versions/3.1[2-9].*/bin/python3; do \
  "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && { echo "$$name"; break; }; done)

$(PEERS_STAMP): requirements/bench.txt | $(DEV_STAMP)
	@echo "Installing the peers into $(PEERS) (once; half a minute) ..."
	@{ $(BIN)/uv venv --quiet --clear --python "$(or $(PEERS_PYTHON),$(BIN)/python)" $(PEERS) && \
	  $(BIN)/uv pip install --quiet --python $(PEERS)/bin/python --require-hashes -r requirements/bench.txt && \
	  touch $@; } || { rm -rf $(PEERS); echo "The peers could not be installed; measuring against the floors alone."; }

bench: $(DEV_STAMP) $(PEERS_STAMP) ## Measure against floors and peers in the same run (ARGS="graph")
	$(BIN)/python -m benchmarks $(ARGS)

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

lock: $(DEV_STAMP) ## Renew the hashed requirements from pyproject.toml (ARGS=--upgrade)
	$(COMPILE) $(ARGS) pyproject.toml -o requirements/base.txt
	$(COMPILE) $(ARGS) --extra dev -c requirements/base.txt pyproject.toml -o requirements/dev.txt
	$(COMPILE) $(ARGS) --group build -c requirements/dev.txt -o requirements/build.txt
	$(COMPILE) $(ARGS) --group bench -o requirements/bench.txt

clean: ## Remove the virtual environments
	rm -rf $(VENV) $(PEERS)
