# `make run` and `make test` do all the set-up a fresh clone needs, each in an environment with only what it uses.

PYTHON ?= python3
PORT ?= 8000

VENV := .venv
SERVE_VENV := .venv-serve

# uv makes the environments where it is on PATH; elsewhere pip puts uv into each new environment first.
UV := $(shell uv --version >/dev/null 2>&1 && echo uv)

# Whichever is there builds the image. docker has one format only, and no option for it.
BUILDER := $(firstword $(foreach tool,docker podman buildah,$(if $(shell command -v $(tool)),$(tool))))
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
PILOTFISH_IMAGE ?= pilotfish:$(VERSION)

.DEFAULT_GOAL := help
.PHONY: help setup run test test-fast faults soak test-matrix fuzz cluster-tools peers image check bench train-default train-gpu lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.installed ## everything for development, in .venv

run: $(SERVE_VENV)/.installed ## serve scores over an embedded simulated cluster on PORT (8000); installs no torch
	@exec $(SERVE_VENV)/bin/pilotfish demo --port $(PORT)

test: $(VENV)/.installed cluster-tools ## all tests
	@tests/system_packages.sh
	@$(VENV)/bin/python -m envs.compiling
	@$(VENV)/bin/python -m pytest -q -n 2 --dist loadfile

test-fast: $(VENV)/.installed ## the tests without the slow ones
	@tests/system_packages.sh
	@$(VENV)/bin/python -m envs.compiling
	@$(VENV)/bin/python -m pytest -q -n 2 --dist loadfile -m "not slow"

cluster-tools: $(VENV)/.installed ## build etcd, kube-apiserver, kube-scheduler, ... for the tests (once; then kept in the user's cache)
	@$(VENV)/bin/python -m tests.cluster.building

faults: $(VENV)/.installed cluster-tools ## 200 pods under arrival through every fault on the real control plane, kept in docs/benchmarks/ (10 minutes)
	@tests/system_packages.sh
	@PILOTFISH_FAULTS=full $(VENV)/bin/python -m pytest -q tests/cluster/test_faults.py

soak: $(VENV)/.installed cluster-tools ## 50,000 pods created and deleted at 500 nodes, kept in docs/benchmarks/ (MINUTES=30)
	@tests/system_packages.sh
	@PILOTFISH_SOAK_MINUTES=$(or $(MINUTES),30) $(VENV)/bin/python -m pytest -q tests/cluster/test_soak.py

test-matrix: $(VENV)/.installed ## the extender against kube-scheduler 1.34, 1.35 and 1.36, kept in docs/benchmarks/
	@$(VENV)/bin/python -m tests.cluster.matrix
peers: $(VENV)/.installed ## build the scheduler of scheduler-plugins, for `make bench ONLY=cluster` (once; 10 minutes)
	@$(VENV)/bin/python -m tests.cluster.building peers

fuzz: $(VENV)/.installed ## 100,000 odd requests, in twelve parts; what came of them is kept in docs/benchmarks/
	$(VENV)/bin/python -m benchmarks.report fuzz

check: $(VENV)/.installed ## ruff, mypy, import-linter
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo

image: ## build the image with docker, podman or buildah; PILOTFISH_IMAGE=name:tag
	$(or $(BUILDER),$(error docker, podman or buildah is needed: install one of them)) build \
		$(if $(filter docker,$(BUILDER)),,--format docker) --tag $(PILOTFISH_IMAGE) .

bench: $(VENV)/.installed ## measure every bar, or those of ONLY="policy env", and write docs/benchmarks.md (TRACES=folder with the public traces)
	$(VENV)/bin/python -m benchmarks.report $(ONLY) $(if $(TRACES),--traces "$(TRACES)")

train-default: $(VENV)/.installed ## make models/released/default again: train, evaluate, release (90 minutes on 2 cores, then 10 for the evaluation)
	$(VENV)/bin/pilotfish train --out runs/default
	$(VENV)/bin/pilotfish evaluate runs/default/model --episodes 200 --json > runs/default/results.jsonl
	$(VENV)/bin/pilotfish card runs/default/model --results runs/default/results.jsonl
	$(VENV)/bin/python -c "from training.card import put_in_place; put_in_place('runs/default/model', 'models/released/default')"

train-gpu: $(VENV)/.installed ## make models/released/gpu again (TRACES=folder with the public traces; 25 to 60 minutes)
	$(VENV)/bin/pilotfish train-gpu --traces "$(TRACES)" --out models/released/gpu

lock: $(VENV)/.installed ## write constraints.txt again with the newest versions that pyproject.toml allows
	$(or $(UV),$(VENV)/bin/uv) pip compile pyproject.toml --group build --all-extras --universal --python-version 3.11 \
		--upgrade --no-header --no-annotate --quiet --output-file constraints.txt

clean: ## remove the environments and all caches
	rm -rf $(VENV) $(SERVE_VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.installed: EXTRAS := serve,otel,train,tune,dev
$(SERVE_VENV)/.installed: EXTRAS := serve

$(VENV)/.installed $(SERVE_VENV)/.installed: %/.installed: pyproject.toml constraints.txt
	@test -x $*/bin/python || $(if $(UV),uv venv --quiet --python ">=3.11",$(PYTHON) -m venv) $*
	@$(if $(UV),,$*/bin/python -m pip install --quiet --constraint constraints.txt uv)
	$(or $(UV),$*/bin/uv) pip install --python $*/bin/python \
		--constraint constraints.txt --build-constraint constraints.txt --editable ".[$(EXTRAS)]"
	@touch $@
