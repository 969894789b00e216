# Each target does all its own set-up: a .venv, the install, then the job. Needs Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test check bench clean

run: .venv/ready  ## the quickstart: about a minute, ends with a figure
	$(BIN)/fedrl run

test: .venv/ready check  ## lint, format, types, then every test
	$(BIN)/pytest

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/ready  ## fedrl against numba and NumPy in one run, a million clients, time to the first round
	$(BIN)/python benchmarks/tabular_speed.py
	$(BIN)/python benchmarks/population.py
	$(BIN)/python benchmarks/first_round.py

clean:
	rm -rf .venv

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedrl needs Python 3.11 or newer, this is %s; say make PYTHON=python3.11" % sys.version.split()[0])'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test,bench]'
	touch $@
