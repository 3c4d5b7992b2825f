# Every target makes the environment it needs in .venv; python3 (3.11 or newer) and make are all it takes.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

# What `make reproduce` runs: settings of `python -m harness`. Empty means the whole study (144 problems x 17 methods
# x 10 seeds). For a part of it: make reproduce GRID="seeds=[0,1]"
GRID ?=
RESULTS ?= results
REPORT ?= report

.DEFAULT_GOAL := help
.PHONY: help setup reproduce demo test check bench

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'
	@echo '  variables: GRID="seeds=[0,1]" (part of the study), RESULTS=results, REPORT=report, PYTHON=python3'

setup: $(READY) ## only the environment, in .venv

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[gpyopt,dev]'
	@touch $@

reproduce: $(READY) ## the study from the shipped tables, then figures and summary (GRID= chooses a part)
	$(BIN)/python -m harness results_dir=$(RESULTS) $(GRID)
	$(BIN)/python -m analysis all results_dir=$(RESULTS) out_dir=$(REPORT)

demo: $(READY) ## the same in about two minutes: 12 problems, 3 seeds, 9 methods
	$(BIN)/python -m harness results_dir=$(RESULTS)/demo study=demo 'seeds=[0,1,2]' \
	  'dataset=[abalone,wine,phoneme,kin8nm]' 'pipeline=[clean,onehot,pca_small]'
	$(BIN)/python -m analysis all results_dir=$(RESULTS)/demo out_dir=$(REPORT)/demo

test: $(READY) ## the test suite
	$(BIN)/python -m pytest -n 2

bench: $(READY) ## how fast: steps against other libraries, whole runs, look-ups, workers, memory (some 10 minutes)
	$(BIN)/python tests/bench

check: $(READY) ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
