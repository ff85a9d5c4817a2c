# One front door. `make` or `make help` lists what there is.
VENV   := .venv
BIN    := $(VENV)/bin
BUILD  := build
# Compiles and runs the Python part: the one of `make deps` where that was made.
PYTHON ?= $(abspath $(firstword $(wildcard $(BIN)/python) $(shell command -v python3)))
# A second's worth of figures per fuzz target unless told: make fuzz SECONDS=60
SECONDS ?= 60
# Of make chaos: what its steps are drawn from, and how many jobs are in flight
SEED ?= 1
JOBS ?= 200

include slurm-plugin/site.mk

C_FILES := $(shell git ls-files '*.c' '*.h' 2> /dev/null)

.DEFAULT_GOAL := help
.PHONY: help deps build core plugin feed programs probe turns drain darshan-util install install-plugin deb rpm demo picture figures test test-shared test-alone lint format acceptance reproduce levers placement placement-real production bench fuzz chaos loop docs patterns lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deps: $(VENV)/.linked ## Install what developers and tests need: Debian packages, a Python environment

$(VENV)/.ready: requirements.lock tests/lab/packages.txt
	tests/lab/install-packages.sh
	test -x $(BIN)/python || python3 -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	touch $@

$(VENV)/.linked: $(VENV)/.ready pyproject.toml # commands and imports of the sources as they lie here
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	mkdir -p $(BUILD) && touch $@ $(BUILD)/.bindings # it has compiled them, too

build: core plugin programs ## Compile everything; installs nothing (needs: docs/guide/install.md)
	@$(PYTHON) -m compileall -q $(wildcard */sluice) # the user of a command may not write here

BINDINGS := $(BUILD)/.bindings
core: $(BINDINGS)
$(BINDINGS): setup.py pyproject.toml $(wildcard policies/core/* policies/files/* classifier/reader/* sim/engine/*/*) \
		policies/build_core.py classifier/build_reader.py sim/build_engine.py
	@$(PYTHON) -c 'import cffi, setuptools' || { echo "$(PYTHON) cannot build the Python part:" \
		"install its cffi and setuptools (python3-cffi python3-setuptools)," \
		"or name a Python that has them: make build PYTHON=/opt/sluice/bin/python" >&2; exit 1; }
	$(call need,libdeflate.h,install libdeflate's (libdeflate-dev or libdeflate-devel))
	$(PYTHON) setup.py -q build_ext --inplace --build-lib $(BUILD)/lib --build-temp $(BUILD)/temp
	touch $@

# Those that Slurm loads: they need its headers and nothing else.
plugin:
	$(MAKE) --no-print-directory -C slurm-plugin/controller/job_submit BUILD=$(abspath $(BUILD))
	$(MAKE) --no-print-directory -C slurm-plugin/node/spank BUILD=$(abspath $(BUILD))

feed:
	$(MAKE) --no-print-directory -C slurm-plugin/controller/feed BUILD=$(abspath $(BUILD))

programs: feed probe turns drain
	$(MAKE) --no-print-directory -C slurm-plugin/node/shim BUILD=$(abspath $(BUILD))

drain:
	$(MAKE) --no-print-directory -C slurm-plugin/node/stage BUILD=$(abspath $(BUILD))

probe:
	$(MAKE) --no-print-directory -C classifier/probe BUILD=$(abspath $(BUILD))

turns:
	$(MAKE) --no-print-directory -C slurm-plugin/controller/turns BUILD=$(abspath $(BUILD))
	$(MAKE) --no-print-directory -C slurm-plugin/node/agent BUILD=$(abspath $(BUILD))

INSTALLED := $(addprefix slurm-plugin/,controller/job_submit controller/feed controller/turns \
	node/spank node/shim node/agent node/stage packaging systemd) classifier/probe

darshan-util: ## Fetch libdarshan-util, pinned by its hash, for make install and packages
	$(MAKE) --no-print-directory -C slurm-plugin/packaging BUILD=$(abspath $(BUILD)) \
		PYTHON=$(PYTHON) darshan-util

install: build ## Copy everything into DESTDIR, below PREFIX and PLUGIN_DIR (see docs/guide/install.md)
	for folder in $(INSTALLED); do \
		$(MAKE) --no-print-directory -C $$folder BUILD=$(abspath $(BUILD)) PYTHON=$(PYTHON) install \
			|| exit 1; \
	done

install-plugin: plugin ## Copy the two plugins alone
	$(MAKE) --no-print-directory -C slurm-plugin/controller/job_submit BUILD=$(abspath $(BUILD)) install
	$(MAKE) --no-print-directory -C slurm-plugin/node/spank BUILD=$(abspath $(BUILD)) install

deb: ## Make Debian packages for the Slurm whose headers are here
	$(MAKE) --no-print-directory -C slurm-plugin/packaging BUILD=$(abspath $(BUILD)) deb

rpm: ## Make RPM packages, likewise
	$(MAKE) --no-print-directory -C slurm-plugin/packaging BUILD=$(abspath $(BUILD)) rpm

demo: ## What two programs lose to each other, and what Sluice does: five acts, 3 minutes (KEEP=1: keep its files)
	@mkdir -p $(BUILD); echo "Installs what is missing, and builds: what that prints is in $(BUILD)/build.log"
	@{ $(MAKE) --no-print-directory deps && $(MAKE) --no-print-directory build; } \
		> $(BUILD)/build.log 2>&1 || { tail -n 20 $(BUILD)/build.log; exit 1; }
	@$(BIN)/python tests/lab/demo.py $(if $(KEEP),--keep)

picture: build ## Take the pictures in README and docs anew, from the demo and from replays
	$(BIN)/python tests/lab/demo.py --pictures docs/evidence
	$(BIN)/python tests/bench/replay_pictures.py

figures: build ## Measure anew the tables of docs/evidence/replays.md, and write them
	status=0; $(BIN)/python -m pytest -s -m acceptance tests/replay/test_gains.py || status=$$?; \
	$(BIN)/python tests/replay/tables_of_docs.py && exit $$status

# What measures storage wants the machine to itself; all else shares it, a file of tests to a
# core at a time, so that what its fixtures train and start is made once.
ALONE := tests/probe tests/storage

test: deps ## Everything CI does: linters, unit, property, fuzz-corpus and real-Slurm tests
	@$(MAKE) --no-print-directory build lint
	@$(MAKE) --no-print-directory --jobs=1 --keep-going test-shared test-alone

# Two processes a core and one more: tests of a real Slurm wait for daemons and clocks most of the time.
test-shared:
	$(BIN)/python -m pytest -m 'not acceptance' --numprocesses=$(shell expr 2 \* $$(nproc) + 1) --dist=loadfile --no-loadscope-reorder $(ALONE:%=--ignore=%)

test-alone:
	$(BIN)/python -m pytest -m 'not acceptance' $(ALONE)

lint: core probe turns drain ## Formatters, ruff, mypy, import layers, generated docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	clang-format --dry-run --Werror $(C_FILES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check

format: core ## Let the formatters decide
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	clang-format -i $(C_FILES)

acceptance: build ## The longer checks behind the claims in the docs (PART=NAME; tests/acceptance.py --list)
	$(BIN)/python tests/acceptance.py $(PART)

reproduce: build ## Published figures next to those of the storage model
	$(BIN)/python tests/papers/reproduce.py

levers: build ## Levers of others next to Sluice's, and what knowledge is worth: docs/evidence/levers.md
	$(BIN)/python tests/bench/levers.py

placement: build ## Placement on 128 targets in replays, next to what it must hold: docs/evidence/placement.md
	$(BIN)/python tests/bench/placement_replays.py

placement-real: build ## Placement on throttled targets of this machine: docs/evidence/placement-measured.md
	$(BIN)/python tests/bench/placement_real.py

production: build ## What a year's background cost jobs, and what the law says (SUMMARIES=file.csv.gz)
	$(BIN)/python tests/bench/production_bench.py $(SUMMARIES)

bench: build ## Benchmarks, as ratios measured in one run
	$(BIN)/python tests/bench/run.py

fuzz: build ## Fuzz the parsers, SECONDS=60 each
	$(MAKE) --no-print-directory -C tests/fuzz run SECONDS=$(SECONDS)

chaos: build ## Break everything around sluiced on a real cluster (SECONDS=600 SEED=1 JOBS=200)
	$(BIN)/python tests/chaos/chaos.py --seconds $(SECONDS) --seed $(SEED) --jobs $(JOBS)

loop: build ## Real programs with co-runners, and what Sluice learns of them next to the truth (SECONDS=3600)
	place=$$(mktemp -d) && chmod 755 $$place && \
	$(BIN)/python tests/loop/loop.py $$place/loop --seconds $(SECONDS) --seed $(SEED)

docs: core probe turns drain ## Write the command reference and the man pages, and build the site in build/html
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/site.py $(BUILD)/html

patterns: core ## Train anew the classifier of patterns that ships
	$(BIN)/python tests/lab/shipped_patterns.py tests/data/darshan/index.csv \
		tests/data/programs/labels.csv tests/data/programs/round6.csv \
		tests/data/programs/round7.csv tests/data/programs/round8.csv \
		tests/data/programs/round9.csv tests/data/programs/round10.csv

LOCK := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header --quiet
SITE_LOCK := slurm-plugin/packaging/requirements.lock
lock: ## Pin every Python dependency with its hash: of developers, and of a site
	$(BIN)/pip install --quiet uv
	$(LOCK) --extra dev --upgrade -o requirements.lock
	$(LOCK) --extra build --constraint requirements.lock -o $(SITE_LOCK)
	for extra in reports serve; do $(LOCK) --extra build --extra $$extra \
		--constraint requirements.lock -o $(SITE_LOCK:.lock=-$$extra.lock) || exit 1; done

clean: ## Remove what was built
	rm -rf $(BUILD) $(VENV) *.egg-info policies/sluice/policies/_core.*.so \
		classifier/sluice/darshan/_reader.*.so sim/sluice/sim/_engine.*.so
