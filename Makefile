# `make demo` and `make test` do all their set-up from a bare clone; see scripts/setup.sh.

SEED ?= 1
TABLE ?=
PYTEST_ARGS ?=
BENCH_ARGS ?=
FOLDER ?=
MUTANTS_ARGS ?=

.PHONY: help setup setup-demo demo test test-fast test-long check schemas drawings man docs format bench figures mutants clean

help:
	@echo 'make demo [SEED=7]      16 hosts in racks of 6, 6 and 4: scan, group, order (as any user, where the kernel lets them)'
	@echo 'make test               the tests: those without a lab in parallel, labs at the same time, the rest of the labs alone;'
	@echo '                        with PYTEST_ARGS=..., one plain pytest run with these arguments'
	@echo 'make test-fast          the quick tests without a lab, in parallel, for the inner loop'
	@echo 'make test-long          all tests, also those too long for every day, with ten times the random examples, of a new seed that is printed'
	@echo 'make check              linters, types, layers, published schemas'
	@echo 'make schemas            rewrite docs/schemas/ from the models'
	@echo 'make drawings           redraw the schedules of docs/schedules.md, and print their proofs there'
	@echo 'make man                write the manual pages into build/man'
	@echo 'make docs               build the documentation as a site in build/site (installs Sphinx into .venv the first time)'
	@echo 'make format             let ruff format the code'
	@echo 'make bench [TABLE=name] print a table of the README; without TABLE, list them (BENCH_ARGS=...)'
	@echo 'make figures [TABLE=..] run all tables of docs/figures.md, or those named, and write them there'
	@echo 'make mutants FOLDER=f   change the code of a folder in 60 places, one at a time: is it noticed? (MUTANTS_ARGS=...)'
	@echo 'make setup              system packages, .venv and Python packages, for all of the above'
	@echo 'make setup-demo         what make demo needs, without PyTorch'
	@echo 'make clean              remove .venv, caches, build output and what the demo left'

setup:
	@scripts/setup.sh test

setup-demo:
	@scripts/setup.sh demo

demo: setup-demo
	@scripts/demo.sh '$(SEED)'

test: setup
	@scripts/test.sh all $(PYTEST_ARGS)

test-fast: setup
	@scripts/test.sh fast $(PYTEST_ARGS)

test-long: setup
	@scripts/test.sh long $(PYTEST_ARGS)

check: setup
	@scripts/check.sh

schemas: setup
	@.venv/bin/python scripts/check_schemas.py --write

drawings: setup
	@.venv/bin/python scripts/draw_schedules.py

man: setup
	@.venv/bin/python scripts/make_man.py

docs: setup
	@.venv/bin/python -c 'import furo, myst_parser, sphinx' 2>/dev/null || \
		.venv/bin/python -m pip install -q -c constraints.txt --editable '.[docs]'
	@.venv/bin/python scripts/make_site.py

format: setup
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

bench:
	@scripts/bench.sh '$(TABLE)' $(BENCH_ARGS)

figures: setup
	@.venv/bin/python scripts/figures.py $(TABLE)

mutants: setup
	@.venv/bin/python scripts/mutants.py '$(FOLDER)' $(MUTANTS_ARGS)

clean:
	rm -rf .venv build dist *.egg-info demo-out demo-out-attempt-* .coverage
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .grimp_cache
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
