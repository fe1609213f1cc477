# Two environments in one .venv: the light core answers, the full one measures and tests.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Without a GPU, torch's own index has a build without CUDA (PyPI's is several GB). Where that index
# cannot be reached pip goes on with the others.
TORCH_INDEX ?= $(shell command -v nvidia-smi >/dev/null || echo --extra-index-url https://download.pytorch.org/whl/cpu --retries 1)
SYSTEM_PACKAGES := chromium libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0 fontconfig fonts-dejavu-core fonts-wqy-microhei \
	prometheus zsh fish
# The tests boot Debian's kernel over this machine's files.
HOST_PACKAGES := qemu-system-x86 linux-image-cloud-amd64 initramfs-tools e2fsprogs iproute2
PYTEST := $(BIN)/python -m pytest
# xdist forgets groups with pytest 9.2; the order of files begins with the slowest.
BY_FILE := --dist loadfile --no-loadscope-reorder
SIDE_BY_SIDE := -n logical $(BY_FILE)
# A CPU without AVX-512, for torch, oneDNN, NumPy and OpenBLAS.
OLDER_CPU := ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL AVX512_SPR" OPENBLAS_CORETYPE=Haswell
# Tests start a thousand Python processes: none should compile anew what is compiled already.
export PYTHONDONTWRITEBYTECODE :=
# What an SBOM is about; torch and Ray come with `sweep`.
EXTRAS ?= serve,report,postgres
MODEL ?= googlenet
TASK ?= inference

.PHONY: help setup system-deps host-deps recommend sweep test test-full test-ray test-machine test-night test-host test-gpu man build sbom audit lint docs pictures bench
.DEFAULT_GOAL := help

help: ## what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

.venv/core: pyproject.toml constraints.txt
	@echo "Setting up .venv with the light core (no torch, no ray) ..."
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv .venv # pip is what a Ctrl-C leaves out
	@$(PIP) --editable .
	@$(BIN)/python -m compileall -q advisor models sweeps # answers start faster from the first one on
	@touch $@

.venv/full: pyproject.toml constraints.txt | .venv/core
	@echo "Adding torch, ray and the test tools to .venv (about 1 GB without CUDA, a few minutes) ..."
	@$(PIP) $(TORCH_INDEX) torch==2.13.0 torchvision==0.28.0
	@$(PIP) --editable '.[sweep,zoo,formats,serve,report,dev]'
	@touch $@

setup: .venv/full ## everything, in .venv

system-deps: ## apt-get install what some tests use: Chromium, Pango, fonts, Prometheus, shells (root)
	@echo "Installing by apt-get: $(SYSTEM_PACKAGES) ..."
	@apt-get -qq update && apt-get -qq install -y --no-install-recommends $(SYSTEM_PACKAGES) >/dev/null

host-deps: ## apt-get install what test-host boots and joins: QEMU, a Debian kernel, ip and tc (root)
	@echo "Installing by apt-get: $(HOST_PACKAGES) ..."
	@apt-get -qq update && apt-get -qq install -y --no-install-recommends $(HOST_PACKAGES) >/dev/null

recommend: .venv/core ## the cheapest instance for TASK=inference MODEL=googlenet
	@$(BIN)/advisor recommend --task $(TASK) --model $(MODEL)

sweep: .venv/full ## measure a small sweep on this machine and fit a model to it
	@$(BIN)/advisor sweep run --preset small
	@$(BIN)/advisor fit

test: .venv/full ## all quick tests, side by side (under 5 minutes on 2 cores)
	@$(PYTEST) -n auto $(BY_FILE) -m lane_quick

test-full: .venv/full ## all other tests: sweeps, Ray, PostgreSQL, browser, PDF, an older CPU (30 minutes on 2 cores)
	@failed=0; \
	$(PYTEST) $(SIDE_BY_SIDE) --hypothesis-profile=full -m "lane_full and not (machine or ray)" || failed=1; \
	make -j2 --output-sync test-ray test-machine || failed=1; \
	$(OLDER_CPU) $(PYTEST) $(SIDE_BY_SIDE) -m "vector and not (lane_night or lane_host)" \
	    $$(grep -rl mark.vector tests --include=test_*.py) || failed=1; \
	exit $$failed

# Clusters mostly wait, so what measures runs beside them.
test-ray: .venv/full
	@$(PYTEST) --hypothesis-profile=full -m "lane_full and ray"

test-machine: .venv/full
	@$(PYTEST) --hypothesis-profile=full -m "lane_full and machine and not ray"

test-night: .venv/full ## thousands of examples never tried before, fuzz, chaos (hours)
	@$(PYTEST) --hypothesis-profile=night --timeout 7200 -m "(lane_night or hypothesis) and not (lane_host or machine)" $(SIDE_BY_SIDE)
	@$(PYTEST) --hypothesis-profile=night --timeout 7200 -m "lane_night and machine"

test-host: .venv/full ## what needs root: cgroups here and in a booted kernel, loop devices (40 minutes emulated)
	@$(PYTEST) -m lane_host

test-gpu: .venv/full ## what needs a CUDA device
	@$(BIN)/python -m tests.gpu

man: .venv/core ## manual pages of all commands, in build/man
	@$(BIN)/python -m docs.site.manual build/man/man1

build: .venv/full ## the wheel, out of the source archive, in dist
	@$(BIN)/python -m build --outdir dist . >/dev/null && ls dist

# The tool is not in `dev`: it brings rfc3987-syntax, with which `import ray` and `import jsonschema` take a second more.
sbom: build ## what `pip install` of all extras brings, as CycloneDX, in dist
	@rm -rf build/installed build/cyclonedx && $(PYTHON) -m venv build/installed && $(PYTHON) -m venv build/cyclonedx
	@build/cyclonedx/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt cyclonedx-bom
	@build/installed/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	    $(if $(findstring sweep,$(EXTRAS)),$(TORCH_INDEX)) "$$(ls -t dist/*.whl | head -1)[$(EXTRAS)]"
	@build/cyclonedx/bin/cyclonedx-py environment build/installed --pyproject pyproject.toml --output-file dist/sbom.cdx.json

audit: .venv/full ## known vulnerabilities of what constraints.txt names (asks pypi.org)
	@$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip

lint: .venv/full ## ruff, mypy, import contracts
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

docs: .venv/full ## the docs site, in build/docs/site: a broken link or anchor is an error
	@$(BIN)/python -m docs.site

pictures: .venv/full ## the pictures of README and docs, from the real commands (needs Chromium)
	@$(BIN)/python -m benchmarks.readme && $(BIN)/python -m benchmarks.pictures

bench: .venv/full ## accuracy and speed, as JSON
	@for name in startup python_api decisions vcpu_truth service_load physics replay; do $(BIN)/python -m benchmarks.$$name --json || exit 1; done
	@$(BIN)/python -m benchmarks.truth --rows infra/build/performance_sources/observations.csv.gz --json
	@$(BIN)/python -m benchmarks.truth --language --json
	@for part in stalls coverage pairs; do $(BIN)/python -m benchmarks.rates $$part --json || exit 1; done
	@$(BIN)/python -m benchmarks.kills --json --kills 20
