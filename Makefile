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
.PHONY: help setup reproduce report models demo time fronts sensitivities utilities test check bench chaos

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'
	@echo '  variables: GRID="seeds=[0,1]" (part of the study), RESULTS=results, REPORT=report, PYTHON=python3'

setup: $(READY) ## only the environment, in .venv

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[gpyopt,dev]'
	@touch $@

reproduce: $(READY) ## the study from the shipped tables, then the report: claims, figures, numbers (GRID= chooses a part)
	$(BIN)/python -m harness results_dir=$(RESULTS) $(GRID)
	$(MAKE) --no-print-directory fronts report

report: $(READY) ## the report again, with whatever time, models and sensitivities have added
	$(BIN)/python -m analysis report results_dir=$(RESULTS) out_dir=$(REPORT)

demo: $(READY) ## the same in about two minutes: 12 problems, 3 seeds, 9 methods
	$(BIN)/python -m harness results_dir=$(RESULTS)/demo study=demo 'seeds=[0,1,2]' \
	  'dataset=[abalone,wine,phoneme,kin8nm]' 'pipeline=[clean,onehot,pca_small]'
	$(BIN)/python -m analysis report results_dir=$(RESULTS)/demo out_dir=$(REPORT)/demo

time: $(READY) ## the time study, after reproduce: runs to 20 x the minimal budget or 300 iterations; EI-cool per budget
	$(BIN)/python -m analysis budgets results_dir=$(RESULTS) out_dir=$(REPORT)
	$(BIN)/python -m harness study=time iterations=300 tau=20 budgets=$(REPORT)/budgets.csv results_dir=$(RESULTS) $(GRID)
	$(BIN)/python -m harness -m +acq=eicool iterations=300 tau=0.5,1,2,5,10,20 budgets=$(REPORT)/budgets.csv \
	  results_dir=$(RESULTS) $(GRID)

fronts: $(READY) ## F1 and F7 on a1a, a3a and splice, from their shipped tables; the front's persistence on all problems
	$(BIN)/python -m harness +acq=ei fronts=true 'dataset=[a1a,a3a,splice]' 'pipeline=[clean]' \
	  evaluator.tables=tabular_cache/tables_figures results_dir=$(RESULTS)-fronts
	$(BIN)/python -m harness +acq=ei fronts=true 'seeds=[0]' results_dir=$(RESULTS)-fronts
	$(BIN)/python -m analysis fronts results_dir=$(RESULTS)-fronts out_dir=$(REPORT)

models: $(READY) ## the cost models compared: F2, F8, F9 and the claims about them
	$(BIN)/python -m tabular_cache costs results_dir=$(RESULTS) $(GRID)
	$(BIN)/python -m harness -m study=cost_models cost_model=gp,transfer_linear results_dir=$(RESULTS) $(GRID)

sensitivities: $(READY) ## the study under other settings (GRID= chooses a part); hist tables of two pipelines are built first
	for s in base ard_off wall log_loss coarse surface; do $(BIN)/python -m harness study=sensitivity setting=$$s \
	  results_dir=$(RESULTS)-sensitivities/$$s $(GRID) || exit; done
	$(BIN)/python -m tabular_cache build tree_method=hist n_configs=256 tables=$(RESULTS)-hist 'pipeline=[clean,pca_small]'
	$(BIN)/python -m harness study=sensitivity evaluator.tables=$(RESULTS)-hist 'pipeline=[clean,pca_small]' \
	  results_dir=$(RESULTS)-sensitivities/hist
	$(BIN)/python -m analysis sensitivities results_dir=$(RESULTS)-sensitivities out_dir=$(REPORT)

utilities: $(READY) ## after reproduce: every utility under three cost rules, 3 seeds; the same against a deadline (hours)
	$(BIN)/python -m harness study=utilities 'seeds=[0,1,2]' results_dir=$(RESULTS) $(GRID)
	$(BIN)/python -m analysis budgets results_dir=$(RESULTS) out_dir=$(REPORT)
	$(BIN)/python -m harness study=deadlines 'seeds=[0,1,2]' iterations=300 tau=1 budgets=$(REPORT)/budgets.csv \
	  results_dir=$(RESULTS) $(GRID)

test: $(READY) ## the test suite
	$(BIN)/python -m pytest -n 2 --dist worksteal

bench: $(READY) ## how fast: steps against other libraries, whole runs, look-ups, workers, memory (some 10 minutes)
	$(BIN)/python tests/bench

check: $(READY) ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

chaos: $(READY) ## faults injected into a small study and its bytes compared; hostile inputs (some minutes)
	$(BIN)/python tests/chaos
