# One target per check; CI calls the same ones. `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

VENV := .venv
PY := $(VENV)/bin/python
export PYTHONPATH := tests

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9_-]+:.*## / {printf "  %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.installed: requirements.lock pyproject.toml
	python3 -m venv $(VENV)
	$(PY) -m pip install --quiet --require-hashes -r requirements.lock
	$(PY) -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: venv
venv: $(VENV)/.installed ## Make .venv from requirements.lock, with the project in it

.PHONY: lock
lock: venv ## Resolve pyproject.toml into requirements.lock again
	$(PY) -m pip install --quiet uv
	$(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--extra dev pyproject.toml -o requirements.lock

.PHONY: lint
lint: venv ## Style, types and import contracts
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-cache

.PHONY: format
format: venv ## Rewrite the code in the project's style
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
