# Two environments in one .venv: the light core answers, the full one measures and tests.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# For the page's tests, which are skipped without it.
CHROMIUM := command -v chromium >/dev/null || command -v google-chrome >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "Installing Chromium for the page's tests ..." && apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium >/dev/null; } || echo "No Chromium here and no root to install it: the page's browser tests will be skipped (apt-get install chromium)"
# For the tests of PDF reports, which are skipped without it.
PANGO := { $(BIN)/python -c "import weasyprint" >/dev/null 2>&1 && fc-list :lang=zh | grep -q . ; } || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "Installing Pango and fonts for the PDF tests ..." && apt-get -qq update && apt-get -qq install -y --no-install-recommends libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0 fontconfig fonts-dejavu-core fonts-wqy-microhei >/dev/null; } || echo "No Pango or no Chinese font here and no root to install them: tests of PDF reports will be skipped (apt-get install libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0 fonts-wqy-microhei)"
MODEL ?= googlenet
TASK ?= inference

.PHONY: help setup recommend sweep test explore lint bench
.DEFAULT_GOAL := help

help: ## what can be made
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

.venv/core: pyproject.toml constraints.txt
	@echo "Setting up .venv with the light core (no torch, no ray) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) --editable .
	@$(BIN)/python -m compileall -q advisor models sweeps # answers start faster from the first one on
	@touch $@

.venv/full: pyproject.toml constraints.txt | .venv/core
	@echo "Adding torch, ray and the test tools to .venv (about 1 GB, a few minutes) ..."
	@$(PIP) torch==2.13.0
	@$(PIP) --editable '.[sweep,zoo,formats,serve,report,dev]'
	@$(CHROMIUM)
	@$(PANGO)
	@touch $@

setup: .venv/full ## everything, in .venv

recommend: .venv/core ## the cheapest instance for TASK=inference MODEL=googlenet
	@$(BIN)/advisor recommend --task $(TASK) --model $(MODEL)

sweep: .venv/full ## measure a small sweep on this machine and fit a model to it
	@$(BIN)/advisor sweep run --preset small
	@$(BIN)/advisor fit

test: .venv/full ## all tests
	@echo "Running all tests (about 25 minutes on 2 cores) ..."
	@$(BIN)/python -m pytest -n auto -m "not machine" && side=0 || side=1; \
	$(BIN)/python -m pytest -m machine && exit $$side

explore: .venv/full ## the property tests of the answer, with examples never tried before
	@$(BIN)/python -m pytest --hypothesis-profile=explore tests/advisor tests/models

lint: .venv/full ## ruff, mypy, import contracts
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: .venv/full ## accuracy and speed, as JSON
	@for file in benchmarks/[a-z]*.py; do $(BIN)/python $$file --json || exit 1; done
	@$(BIN)/python -m benchmarks.truth --rows infra/performance_sources/observations.csv.gz --json
	@$(BIN)/python -m benchmarks.vcpu_truth --json
	@$(BIN)/python -m benchmarks.kills --json --kills 20
	@$(BIN)/python -m benchmarks.service_load --json
