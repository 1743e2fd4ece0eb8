# Everything here works on a machine that has only Python 3.11 or later (with venv) and make; uv is needed only by
# `make lock`. Each environment is rebuilt when its lock file or pyproject.toml changes.
PYTHON ?= python3
UV ?= uv
JOBS ?= 2
# Half of the time a worker waits: for a server, a browser, Spark or a disk. Two for each of two cores.
WORKERS ?= 4

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo test soak mutate lint bench lock test-oldest newest docs sbom licences scan clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

# $(1): environment, $(2): lock file. What is installed is what the lock file names, by hash, and the project itself;
# the build backend is in the lock, so building the project downloads nothing more. First of all pip is brought up to
# date and the setuptools that came with Python 3.11 goes: both are old enough to have published faults.
QUIET := --quiet --disable-pip-version-check
define environment
$(1)/.stamp: $(2) requirements-pip.lock pyproject.toml
	$$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Sfumato needs Python 3.11 or later")'
	test -x $(1)/bin/python || $$(PYTHON) -m venv $(1)
	$(1)/bin/python -m pip --version >/dev/null 2>&1 || $(1)/bin/python -m ensurepip
	$(1)/bin/python -m pip install $$(QUIET) --require-hashes -r requirements-pip.lock
	$(1)/bin/python -m pip uninstall --quiet --yes setuptools 2>/dev/null
	$(1)/bin/python -m pip install $$(QUIET) --require-hashes -r $(2)
	$(1)/bin/python -m pip install $$(QUIET) --no-deps --no-build-isolation -e .
	touch $$@
endef
$(eval $(call environment,.venv,requirements.lock))
$(eval $(call environment,.venv-demo,requirements-demo.lock))
$(eval $(call environment,.venv-oldest,requirements-oldest.lock))
$(eval $(call environment,.venv-bench,requirements-bench.lock))

setup: .venv/.stamp ## create .venv with everything, extras included

# The demo needs little; where everything is installed, it uses that.
DEMO := $(if $(wildcard .venv/.stamp),.venv,.venv-demo)
demo: $(DEMO)/.stamp ## see what Sfumato does, on synthetic data
	$(DEMO)/bin/sfumato demo

lint: setup ## ruff and mypy
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy

test: lint ## lint, then every test
	.venv/bin/python -m pytest -q -n $(WORKERS) --dist loadgroup

soak: setup ## the long trials: kills under load, fuzzing, many seeds
	.venv/bin/python -m pytest -q -n $(WORKERS) --dist loadgroup -m soak

mutate: setup ## plant small mistakes in the sources, and list those that no test notices
	.venv/bin/python -m tests.mutate --jobs $(JOBS)

test-oldest: .venv-oldest/.stamp ## every test, with the oldest dependencies allowed
	.venv-oldest/bin/python -m pytest -q -n $(WORKERS) --dist loadgroup

bench: .venv-bench/.stamp ## measure, beside other libraries
	.venv-bench/bin/python -m bench

docs: setup ## build the documentation into site/, every example run; a page that fails is a failure
	NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict --quiet

newest: ## build the package and run its demo with the newest Python that can be had
	.ci/newest

sbom: setup ## write dist/sbom.json, the software bill of materials
	.venv/bin/python -m sbom bill

licences: setup ## list the licence of every dependency; fails on one that was not looked at
	.venv/bin/python -m sbom licences

scan: setup ## look for known vulnerabilities of every locked version; says loudly where nobody can be asked
	.venv/bin/python -m sbom scan

lock: ## write the lock files again from pyproject.toml (needs uv)
	$(call compile,pyproject.toml,requirements.lock,--all-extras --group dev --universal --upgrade)
	$(call compile,pyproject.toml,requirements-demo.lock,--extra learn --extra plot --extra serve --group build --universal --constraints requirements.lock)
	$(call compile,pyproject.toml,requirements-oldest.lock,--all-extras --group dev --resolution lowest-direct)
	$(call compile,pyproject.toml,requirements-bench.lock,--all-extras --group dev --group bench --constraints requirements.lock --upgrade)
	echo pip | $(call compile,-,requirements-pip.lock,--universal --upgrade)
	! grep -n '://' requirements*.lock

compile = $(UV) pip compile $(1) --quiet --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command 'make lock' $(3) --output-file $(2)

clean: ## delete the environments and everything generated
	rm -rf .venv .venv-demo .venv-oldest .venv-bench dist build site .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests bench papers docs_build sbom -name __pycache__ -type d -prune -exec rm -rf {} +
