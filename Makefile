# One target per check; CI calls the same ones. `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# Distributions build their interpreter with profile-guided optimisation; one built at home often lacks it, and then
# the tests take a sixth more of the processors. Theirs is taken where it is new enough and can make environments.
PYTHON ?= $(shell /usr/bin/python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo /usr/bin/python3 || echo python3)
VENV := .venv
PY := $(VENV)/bin/python
export PYTHONPATH := tests
# Without compiled modules on disk every process compiles the project again, and the checks start a thousand.
unexport PYTHONDONTWRITEBYTECODE
PYTEST = $(VENV)/bin/pytest $(if $(LEADSMAN_JUNIT),--junitxml=$(LEADSMAN_JUNIT)) $(ARGS)
# Processes that share a tier's tests; JOBS=0 runs them in one, where a debugger works.
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# What mypy learned, for the next fresh checkout: it takes half a minute to learn and is checked against the sources.
MYPY_KEPT := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/leadsman/mypy
# Tests that mostly wait: for a controller, a probe, an idle window.
WAITING_JOBS ?= $(if $(filter 0,$(JOBS)),0,$(shell echo $$(($(JOBS) + 1))))

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9_-]+:.*## / {printf "  %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "leadsman needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && \
		apt-get install -qq -y python3-venv; } || \
		{ echo "python3 has no venv; install it (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@awk '/^[^ ]/ {of_uv = /^uv==/} of_uv' requirements.lock >$(VENV)/uv.lock
	$(PY) -m pip install --quiet --only-binary :all: --require-hashes -r $(VENV)/uv.lock || true
	@if $(PY) -m pip config list | grep -qE 'index|proxy|client-cert|trusted-host|constraint'; then \
		echo "pip is configured here, so pip installs" >&2; false; \
	else $(PY) -m uv pip install --quiet --python $(PY) --require-hashes -r requirements.lock; fi || \
		$(PY) -m pip install --quiet --require-hashes -r requirements.lock
	$(PY) -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: venv
venv: $(VENV)/.installed ## Make .venv from requirements.lock, with the project in it

.PHONY: lock
lock: venv ## Resolve pyproject.toml into requirements.lock again
	$(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--extra dev pyproject.toml -o requirements.lock

.PHONY: lint
lint: venv ## Style, types and import contracts
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	@test -d .mypy_cache || ! test -d $(MYPY_KEPT) || cp -R $(MYPY_KEPT) .mypy_cache || true
	$(VENV)/bin/mypy --cache-dir .mypy_cache
	MYPYPATH=tests:. $(VENV)/bin/mypy --cache-dir .mypy_cache demo tests/cluster tests/tiers
	@mkdir -p $(MYPY_KEPT) && new=$$(mktemp -d $(MYPY_KEPT).XXXXXX) && cp -R .mypy_cache/. $$new && \
		{ rm -rf $(MYPY_KEPT) && mv $$new $(MYPY_KEPT) || rm -rf $$new; } || true
	$(VENV)/bin/lint-imports --no-cache

.PHONY: format
format: venv ## Rewrite the code in the project's style
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

.PHONY: crds
crds: venv ## Generate crds/, the chart's copy and docs/reference.md from the models
	$(PY) -m leadsman_operator.api.generate

.PHONY: crds-check
crds-check: venv ## Fail when a generated file differs from the models
	$(PY) -m leadsman_operator.api.generate --check

.PHONY: test
test: venv ## Every check and every test; the README's test command
	$(PY) -m tiers

.PHONY: test-unit
test-unit: venv ## Pure pieces: the broker core, scaling, models (unit and property tests)
	$(PYTEST) -n $(JOBS) tests/unit

.PHONY: test-broker
test-broker: venv ## The broker on real SQLite and real HTTP, with kill -9
	$(PYTEST) -n $(JOBS) tests/broker

.PHONY: test-sdk
test-sdk: venv ## The SDK, the worker and the CLI against a real broker process
	$(PYTEST) -n $(JOBS) tests/sdk

.PHONY: test-operator
test-operator: venv ## The operator's parts that need no API server
	$(PYTEST) -n $(JOBS) tests/operator

.PHONY: test-local
test-local: venv ## The simulator and local mode
	$(PYTEST) -n $(JOBS) tests/local

.PHONY: test-cluster
test-cluster: venv cluster-build ## The test cluster's own tests
	$(PYTEST) tests/cluster_harness

.PHONY: test-control-plane
test-control-plane: venv cluster-build ## The operator against a real API server and controller-manager
	$(PYTEST) -n $(WAITING_JOBS) --dist worksteal --ignore tests/control_plane/test_churn.py tests/control_plane

.PHONY: test-churn
test-churn: venv cluster-build ## Ten minutes of pools that come and go: nothing is left of them (LEADSMAN_CHURN_SECONDS=600)
	LEADSMAN_CHURN_SECONDS=$${LEADSMAN_CHURN_SECONDS:-600} $(PYTEST) tests/control_plane/test_churn.py

.PHONY: test-chart
test-chart: venv cluster-build ## The chart with the real helm
	$(PYTEST) tests/chart

.PHONY: test-e2e
test-e2e: venv cluster-build ## Real pods from the real image on a real node
	$(PYTEST) tests/e2e

.PHONY: cluster-build
cluster-build: venv ## Build and cache what the test cluster is made of (minutes when cold)
	$(PY) -m cluster build

.PHONY: cluster-up
cluster-up: venv ## Start a real Kubernetes on this machine, without Docker
	$(PY) -m cluster up

.PHONY: cluster-env
cluster-env: venv ## Print the exports that point kubectl at it: eval "$$(make -s cluster-env)"
	@$(PY) -m cluster env

.PHONY: cluster-down
cluster-down: venv ## Stop it and clear everything it made
	$(PY) -m cluster down

.PHONY: image
image: venv ## Build the container image and load it into the test cluster
	$(PY) -m cluster image --tag localhost/leadsman:dev

.PHONY: demo
demo: venv ## Cluster, image, chart, a batch of tasks, a killed worker, scale to zero (without a cluster: in local mode)
	PYTHONPATH=tests:. $(PY) -m demo up $(ARGS)

.PHONY: demo-down
demo-down: venv ## Take down what the demo left up
	PYTHONPATH=tests:. $(PY) -m demo down

.PHONY: bench-core
bench-core: venv ## The broker core alone, without I/O
	$(PY) bench/core.py

.PHONY: bench-fairness
bench-fairness: venv ## How fairly tenants and classes are served, on a virtual clock
	$(PY) bench/fairness.py

.PHONY: bench-broker
bench-broker: venv ## The broker over real HTTP and SQLite, its core alone, its fairness (ARGS=--quick: the first, in a minute)
	$(PY) bench/broker.py $(ARGS)
	$(if $(ARGS),,$(PY) bench/core.py && $(PY) bench/fairness.py)

.PHONY: bench-worker
bench-worker: venv ## One worker process: tasks per second, memory and processor time when idle, start, import
	$(PY) bench/worker.py

.PHONY: bench-peers
bench-peers: venv ## Other queues on this machine, with the same payload and durability, beside ours
	$(PY) bench/peers.py $(ARGS)

.PHONY: bench-simulate
bench-simulate: venv ## The simulator's speed and answers; ours, KEDA and fixed fleets over 24 h; the first local task (ARGS=comparison: one part)
	$(PY) bench/simulate.py $(ARGS)

.PHONY: bench-model
bench-model: venv ## The same workload in local mode and in the simulator: within 15 % of each other
	$(PY) bench/model.py

.PHONY: bench-reaction
bench-reaction: venv cluster-build ## From enqueue to the final number of replicas, on a real control plane
	$(PY) bench/reaction.py

.PHONY: bench-operator
bench-operator: venv cluster-build ## The operator among many pools on a real control plane (ARGS="--pools 1000")
	$(PY) bench/many_pools.py $(ARGS)

.PHONY: test-long
test-long: venv cluster-build ## The long targets of the randomised and repeated tests
	LEADSMAN_LONG=1 $(PYTEST) -m long tests
