# `make demo` and `make test` do all their set-up from a bare clone; see scripts/setup.sh.

SEED ?= 1
TABLE ?=
PYTEST_ARGS ?=
BENCH_ARGS ?=

.PHONY: help setup setup-demo demo test check schemas format bench clean

help:
	@echo 'make demo [SEED=7]      16 hosts in racks of 6, 6 and 4: scan, group, order (as any user, where the kernel lets them)'
	@echo 'make test               the tests (PYTEST_ARGS=... goes to pytest)'
	@echo 'make check              linters, types, layers, published schemas'
	@echo 'make schemas            write docs/schemas/ anew from the models'
	@echo 'make format             let ruff format the code'
	@echo 'make bench [TABLE=name] print a table of the README; without TABLE, list them (BENCH_ARGS=...)'
	@echo 'make setup              system packages, .venv and Python packages, for all of the above'
	@echo 'make clean              remove .venv, caches, build output and what the demo left'

setup:
	@scripts/setup.sh test

setup-demo:
	@scripts/setup.sh demo

demo: setup-demo
	@scripts/demo.sh '$(SEED)'

test: setup
	@.venv/bin/pytest $(PYTEST_ARGS)

check: setup
	@scripts/check.sh

schemas: setup
	@.venv/bin/python scripts/check_schemas.py --write

format: setup
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

bench:
	@scripts/bench.sh '$(TABLE)' $(BENCH_ARGS)

clean:
	rm -rf .venv build dist *.egg-info demo-out demo-out-attempt-* .coverage
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .grimp_cache
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
