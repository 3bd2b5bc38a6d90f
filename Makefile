# Everything is set up by the commands that need it: `make test` on a fresh machine is enough.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
UV_VERSION := 0.13.7
# Tests wait more than they compute, so there are more workers than cores. A worker begins with a run of neighbours,
# which share fixtures, and steals from the others when it has nothing left. On the real control plane each worker has a
# cluster of its own (about 1.5 GB), and takes whole files.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(max(6, os.cpu_count() or 1))')
CLUSTERS ?= 3
# The tiers: every test is in exactly one of them (tests/unit/test_tiers.py), apart from those marked `chaos`.
FAST := $(BIN)/pytest -n $(WORKERS) --dist worksteal -m "not cluster and not release and not chaos"
REAL := $(BIN)/pytest -n $(CLUSTERS) --dist loadfile -m "cluster and not release and not chaos"
RELEASE := $(BIN)/pytest -n $(CLUSTERS) --dist loadfile -m "release and not chaos"
# How many seeds and generated examples are tried: few or many.
RESCHEDULER_TEST_EXAMPLES ?= few
export RESCHEDULER_TEST_EXAMPLES
# Tests start hundreds of processes; without its cache Python would compile every module again in each of them.
unexport PYTHONDONTWRITEBYTECODE
NODES ?= 20
PODS ?= 100
CASES ?= 10000
KILLS ?= 200
MINUTES ?= 10
TAG ?=
# By the environment, not by the command line: a tag could have the name of a command.
export TAG

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo check format test test-real test-release test-all tools screenshots test-versions agree chaos bench docs site dist image release-check release-facts hooks testbed cluster lock clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements.lock pyproject.toml demo/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; say which with PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable . --editable demo
	@touch $@

setup: $(READY) ## Install everything into .venv

demo: $(READY) ## The product at work on an embedded cluster, with its page (DEMO="--scenario chaos")
	@$(BIN)/rescheduler demo $(DEMO)

check: $(READY) ## Lint, types, import rules, generated pages
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check
	$(BIN)/python -m release.lock --check

format: $(READY) ## Format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

test: $(READY) ## The fast tests: Python packages are all they need
	$(FAST)

test-real: $(READY) testbed ## Tests on the real control plane; builds it the first time
	$(REAL)

test-release: $(READY) testbed tools ## Browser, chart, commands of the documentation, packages, site, Prometheus
	$(RELEASE)

test-all: ## All three, with many examples; goes on where one fails
	$(MAKE) --keep-going RESCHEDULER_TEST_EXAMPLES=many test test-real test-release

tools: $(READY) ## Install what the release tests use: Chromium, Prometheus and helm
	$(BIN)/python -m tests.browser.chromium
	$(BIN)/python -m tests.support.prometheus
	$(BIN)/python -m tests.testbed.helm

screenshots: $(READY) tools ## Take the pictures of docs/screenshots anew
	$(BIN)/python -m tests.browser.screenshots

test-versions: $(READY) ## The cluster's tests on every supported Kubernetes version
	for version in v1.34.4 v1.36.4 v1.37.1; do \
	  RESCHEDULER_TESTBED_VERSION=$$version $(BIN)/python -m tests.testbed build && \
	  RESCHEDULER_TESTBED_VERSION=$$version $(REAL) || exit 1; \
	done

agree: $(READY) testbed ## Our feasibility against the real kube-scheduler (CASES=10000)
	$(BIN)/python -m tests.contract.agreement run --cases $(CASES)

chaos: $(READY) testbed ## Kill the controller at every step, and break its connection (KILLS=200 MINUTES=10)
	$(BIN)/pytest -m chaos
	$(BIN)/python -m tests.chaos --kills $(KILLS) --fault-minutes $(MINUTES)

bench: $(READY) testbed ## Planning, all strategies, watching, webhook and extender on generated clusters, moving on the real one
	$(BIN)/python -m tests.bench
	$(BIN)/python -m tests.bench.together
	$(BIN)/python -m tests.bench.together --limit 10 --rounds 1
	$(BIN)/python -m tests.bench.consolidation $(if $(DATA),--data $(DATA))
	$(BIN)/python -m tests.bench.watching
	$(BIN)/python -m tests.bench.admission
	$(BIN)/python -m tests.bench.page
	$(BIN)/python -m tests.bench.moving

docs: $(READY) ## Write what is generated: pages, schema of the chart, plain manifests
	$(BIN)/python -m charts.generate
	$(BIN)/python docs/generate.py

site: $(READY) ## The documentation as a site, in build/site
	$(BIN)/python -m mkdocs build --strict

dist: $(READY) ## Wheels, sdists, chart, SBOM and sums in dist/, built twice and compared
	$(BIN)/python -m release.dist

image: $(READY) ## The image, where Docker or Podman runs
	$(BIN)/python -m release.image

release-check: $(READY) ## Whether a tag, the version and the CHANGELOG agree (TAG=v1.2.3)
	@$(BIN)/python -m release.tag "$$TAG"

release-facts: $(READY) ## What a release is built of: version, commit, time
	@$(BIN)/python -m release.tag

hooks: $(READY) ## Have git run the checks before each commit
	$(BIN)/pre-commit install

testbed: $(READY) ## Build the real control plane and say where it is
	$(BIN)/python -m tests.testbed build

cluster: $(READY) ## Start a real control plane to play with (NODES=20 PODS=100)
	$(BIN)/python -m tests.testbed up --nodes $(NODES) --pods $(PODS)

lock: $(READY) ## Renew the pinned dependencies
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --generate-hashes --no-annotate --upgrade -o requirements.lock
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable . --editable demo
	$(BIN)/python -m release.lock

clean: ## Remove what was installed and cached here
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
