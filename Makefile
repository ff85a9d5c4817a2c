# One front door. `make` or `make help` lists what there is.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
BUILD  := build
# A second's worth of figures per fuzz target unless told: make fuzz SECONDS=60
SECONDS ?= 60
# Of make chaos: what its steps are drawn from, and how many jobs are in flight
SEED ?= 1
JOBS ?= 200

C_FILES := $(shell git ls-files '*.c' '*.h')

.DEFAULT_GOAL := help
.PHONY: help setup build plugin probe agent install demo picture figures test test-shared test-alone retest lint format acceptance bench fuzz chaos loop docs patterns lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## Install Debian packages and the Python environment, where missing

$(VENV)/.ready: requirements.lock pyproject.toml tests/lab/packages.txt
	tests/lab/install-packages.sh
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	touch $@

build: $(VENV)/.built plugin probe agent ## Build the C core, the Python packages, the Slurm plugins and programs
	@$(BIN)/python -m compileall -q $(wildcard */sluice) # the user of a command may not write here

$(VENV)/.built: $(VENV)/.ready $(wildcard policies/core/* classifier/reader/* sim/engine/*/*) \
		policies/build_core.py classifier/build_reader.py sim/build_engine.py
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

plugin: $(VENV)/.ready
	$(MAKE) --no-print-directory -C slurm-plugin/job_submit BUILD=$(abspath $(BUILD))
	$(MAKE) --no-print-directory -C slurm-plugin/spank BUILD=$(abspath $(BUILD))
	$(MAKE) --no-print-directory -C slurm-plugin/feed BUILD=$(abspath $(BUILD))
	$(MAKE) --no-print-directory -C slurm-plugin/shim BUILD=$(abspath $(BUILD))

probe:
	$(MAKE) --no-print-directory -C classifier/probe BUILD=$(abspath $(BUILD))

agent:
	$(MAKE) --no-print-directory -C slurm-plugin/agent BUILD=$(abspath $(BUILD))

install: build ## Copy plugins, programs and man pages into DESTDIR (see docs/guide/operating.md)
	$(MAKE) --no-print-directory -C slurm-plugin/job_submit BUILD=$(abspath $(BUILD)) install
	$(MAKE) --no-print-directory -C slurm-plugin/spank BUILD=$(abspath $(BUILD)) install
	$(MAKE) --no-print-directory -C slurm-plugin/feed BUILD=$(abspath $(BUILD)) install
	$(MAKE) --no-print-directory -C slurm-plugin/shim BUILD=$(abspath $(BUILD)) install
	$(MAKE) --no-print-directory -C slurm-plugin/agent BUILD=$(abspath $(BUILD)) install
	$(MAKE) --no-print-directory -C classifier/probe BUILD=$(abspath $(BUILD)) install
	$(MAKE) --no-print-directory -C slurm-plugin/systemd install
	install -d $(DESTDIR)/usr/share/man/man1 $(DESTDIR)/usr/share/man/man5 $(DESTDIR)/usr/share/man/man8
	install -m 644 docs/man/*.1 $(DESTDIR)/usr/share/man/man1
	install -m 644 docs/man/*.5 $(DESTDIR)/usr/share/man/man5
	install -m 644 docs/man/*.8 $(DESTDIR)/usr/share/man/man8

demo: build ## A real Slurm controller decides on a mixed workload, then makes jobs wait (KEEP=1: keep its files)
	$(BIN)/python tests/lab/demo.py $(if $(KEEP),--keep)

picture: build ## Take the pictures in README and docs anew, from the demo and from replays
	$(BIN)/python tests/lab/demo.py --svg docs/guide/decisions.svg --png docs/evidence/enforce.png
	$(BIN)/python tests/bench/replay_pictures.py

figures: build ## Measure anew the tables of docs/evidence/replays.md, and write them
	status=0; $(BIN)/python -m pytest -s -m acceptance tests/replay/test_gains.py || status=$$?; \
	$(BIN)/python tests/replay/tables_of_docs.py && exit $$status

# What measures storage wants the machine to itself; all else shares it, a file of tests to a
# core at a time, so that what its fixtures train and start is made once.
ALONE := tests/probe tests/storage

test: build lint ## Everything CI does: linters, unit, property, fuzz-corpus and real-Slurm tests
	@$(MAKE) --no-print-directory --jobs=1 --keep-going test-shared test-alone

test-shared:
	$(BIN)/python -m pytest -m 'not acceptance' --numprocesses=auto --dist=loadfile $(ALONE:%=--ignore=%)

test-alone:
	$(BIN)/python -m pytest -m 'not acceptance' $(ALONE)

retest: ## Ask again the tests that failed last, and name them
	$(BIN)/python -m pytest -m 'not acceptance' --last-failed --last-failed-no-failures none -rA

lint: $(VENV)/.built probe agent ## Formatters, ruff, mypy, import layers, generated docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	clang-format --dry-run --Werror $(C_FILES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check

format: $(VENV)/.built ## Let the formatters decide
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	clang-format -i $(C_FILES)

acceptance: build ## The longer checks behind the claims in the docs
	$(BIN)/python -m pytest -m acceptance

bench: build ## Benchmarks, as ratios measured in one run
	$(BIN)/python tests/bench/run.py

fuzz: build ## Fuzz the parsers, SECONDS=60 each
	$(MAKE) --no-print-directory -C tests/fuzz run SECONDS=$(SECONDS)

chaos: build ## Break everything around sluiced on a real cluster (SECONDS=600 SEED=1 JOBS=200)
	$(BIN)/python tests/chaos/chaos.py --seconds $(SECONDS) --seed $(SEED) --jobs $(JOBS)

loop: build ## Real programs with co-runners, and what Sluice learns of them next to the truth (SECONDS=3600)
	place=$$(mktemp -d) && chmod 755 $$place && \
	$(BIN)/python tests/loop/loop.py $$place/loop --seconds $(SECONDS) --seed $(SEED)

docs: $(VENV)/.built probe agent ## Regenerate the command reference and the man pages
	$(BIN)/python docs/generate.py

patterns: $(VENV)/.built ## Train anew the classifier of patterns that ships
	$(BIN)/python tests/lab/shipped_patterns.py tests/data/darshan/index.csv \
		tests/data/programs/labels.csv tests/data/programs/round6.csv \
		tests/data/programs/round7.csv tests/data/programs/round8.csv \
		tests/data/programs/round9.csv tests/data/programs/round10.csv

lock: ## Pin every Python dependency with its hash
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet \
		--upgrade -o requirements.lock

clean: ## Remove what was built
	rm -rf $(BUILD) $(VENV) *.egg-info policies/sluice/policies/_core.*.so \
		classifier/sluice/darshan/_reader.*.so sim/sluice/sim/_engine.*.so
