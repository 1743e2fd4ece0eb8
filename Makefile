# Everything here works on a machine that has only Python 3.11 or later (with venv), make and a C compiler;
# uv is needed only by `make lock`. Each environment is rebuilt when its lock file or pyproject.toml changes.
PYTHON ?= python3
UV ?= uv
JOBS ?= 2

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo test soak mutate lint bench lock test-oldest clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

# $(1): environment, $(2): lock file. What is installed is what the lock file names, by hash, and the project itself;
# the build backend is in the lock, so building the project downloads nothing more.
define environment
$(1)/.stamp: $(2) pyproject.toml
	$$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Sfumato needs Python 3.11 or later")'
	test -x $(1)/bin/python || $$(PYTHON) -m venv $(1)
	$(1)/bin/python -m pip --version >/dev/null 2>&1 || $(1)/bin/python -m ensurepip
	$(1)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(2)
	$(1)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $$@
endef
$(eval $(call environment,.venv,requirements.lock))
$(eval $(call environment,.venv-oldest,requirements-oldest.lock))
$(eval $(call environment,.venv-bench,requirements-bench.lock))

setup: .venv/.stamp ## create .venv with everything, extras included

demo: setup ## see what Sfumato does, on synthetic data
	.venv/bin/sfumato demo

lint: setup ## ruff and mypy
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy

test: lint ## lint, then every test
	.venv/bin/python -m pytest -q -n $(JOBS) --dist loadgroup

soak: setup ## the long trials: kills under load, fuzzing, many seeds
	.venv/bin/python -m pytest -q -n $(JOBS) --dist loadgroup -m soak

mutate: setup ## plant small mistakes in the sources, and list those that no test notices
	.venv/bin/python -m tests.mutate --jobs $(JOBS)

test-oldest: .venv-oldest/.stamp ## every test, with the oldest dependencies allowed
	.venv-oldest/bin/python -m pytest -q -n $(JOBS) --dist loadgroup

bench: .venv-bench/.stamp ## measure, beside other libraries
	.venv-bench/bin/python -m bench

lock: ## write the lock files again from pyproject.toml (needs uv)
	$(call compile,requirements.lock,--universal --upgrade)
	$(call compile,requirements-oldest.lock,--resolution lowest-direct)
	$(call compile,requirements-bench.lock,--group bench --constraints requirements.lock --upgrade)

compile = $(UV) pip compile pyproject.toml --quiet --all-extras --group dev --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command 'make lock' $(2) --output-file $(1)

clean: ## delete the environments and everything generated
	rm -rf .venv .venv-oldest .venv-bench dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
