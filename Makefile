# Every target makes the environment it needs in .venv; python3 (3.11 or newer) and make are all it takes.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

# What `make reproduce` runs: settings of `python -m harness`. Empty means the whole study (144 problems x 23 methods
# x 10 seeds). For a part of it: make reproduce GRID="seeds=[0,1]"
# COSTS: settings of the records of how well cost models predict (F2, F8); MODELS: of the runs under other cost models
# (F9), before GRID, whose own settings win; claim 11 needs MODELS= (all seeds). FRONTS: of the runs whose fronts are
# kept. TAUS: budgets, in multiples of the minimal one, the largest last, that methods which plan with theirs (EI-cool,
# CArBO, two utilities) get runs for: those that runs of 300 evaluations use up; at 5, 10 and 20 too many end before
# that for a rank to count.
# HIST: tables of two pipelines measured with tree_method=hist.
GRID ?=
COSTS ?=
MODELS ?= seeds=[0,1]
FRONTS ?=
TAUS ?= 0.5,1,2
comma := ,
HIST ?= tabular_cache/tables_hist
RESULTS ?= results
REPORT ?= report

.DEFAULT_GOAL := help
# Every target keeps all cores busy by itself, and `make time report` means one after the other.
.NOTPARALLEL:
.PHONY: help setup reproduce figures report models demo time fronts sensitivities density utilities leaderboard registered registered-stopped test thorough golden check \
  bench chaos

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'
	@echo '  variables: GRID="seeds=[0,1]" (part of the study), COSTS= and MODELS= (parts of models), TAUS=0.5,1,2,'
	@echo '             RESULTS=results, REPORT=report, HIST=tabular_cache/tables_hist, PYTHON=python3'

setup: $(READY) ## only the environment, in .venv, and the inner loops compiled (a minute or two)

$(READY): pyproject.toml setup.py constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[benchmark,gpyopt,optuna,dev]'
	$(BIN)/python -m harness.compile_all
	@touch $@

reproduce: $(READY) ## the study from the shipped tables, budgets, fronts, models, the report of all (GRID= a part)
	$(BIN)/python -m harness +acq=ei fronts=true results_dir=$(RESULTS) $(GRID) $(FRONTS)
	$(BIN)/python -m harness results_dir=$(RESULTS) $(GRID)
	$(MAKE) --no-print-directory time fronts models report
	@echo 'whether a verdict depends on a setting: make sensitivities report'
	@echo 'other utilities than EI: make utilities report'

figures: $(READY) ## figures, claims and the report from the shipped records of the study (minutes)
	$(BIN)/python -m tabular_cache.packed unpack packed_dir=runs/study results_dir=$(RESULTS)-shipped
	$(BIN)/python -m tabular_cache.packed unpack packed_dir=runs/fronts results_dir=$(RESULTS)-shipped-fronts
	$(BIN)/python -m analysis report results_dir=$(RESULTS)-shipped out_dir=$(REPORT)-shipped

report: $(READY) ## the report again, with whatever time, models and sensitivities have added
	$(BIN)/python -m analysis report results_dir=$(RESULTS) out_dir=$(REPORT)

DEMO := 'pipeline=[clean]' 'seeds=[0,1]'
demo: $(READY) ## a first look in two minutes: all data sets, one pipeline, 2 seeds, 8 methods; one run step by step
	$(BIN)/python -m harness results_dir=$(RESULTS)-demo study=demo $(DEMO)
	$(BIN)/python -m harness +acq=cei lam=0.3 fronts=true 'dataset=[kin8nm]' 'pipeline=[clean]' 'seeds=[0]' \
	  results_dir=$(RESULTS)-demo-fronts
	$(BIN)/python -m tabular_cache costs results_dir=$(RESULTS)-demo 'cost_models=[lv3,gp]' $(DEMO)
	$(BIN)/python -m analysis demo results_dir=$(RESULTS)-demo out_dir=$(REPORT)/demo

time: $(READY) ## a part of it: runs to 20 x the minimal budget or 300 iterations; EI-cool and CArBO per budget
	$(BIN)/python -m analysis budgets results_dir=$(RESULTS) out_dir=$(REPORT)
	$(BIN)/python -m harness study=time iterations=300 tau=20 budgets=$(REPORT)/budgets.csv results_dir=$(RESULTS) $(GRID)
	$(BIN)/python -m harness -m +acq=eicool,carbo iterations=300 tau=$(TAUS) budgets=$(REPORT)/budgets.csv \
	  results_dir=$(RESULTS) $(GRID)

fronts: $(READY) ## F1 and F7 on a1a, a3a and splice, from their shipped tables; the front's persistence on all problems
	$(BIN)/python -m harness +acq=ei fronts=true $(GRID) 'dataset=[a1a,a3a,splice]' 'pipeline=[clean]' \
	  evaluator.tables=tabular_cache/tables_figures results_dir=$(RESULTS)-fronts
	$(BIN)/python -m harness +acq=ei fronts=true results_dir=$(RESULTS) $(GRID) $(FRONTS)
	$(BIN)/python -m analysis fronts results_dir=$(RESULTS) out_dir=$(REPORT)

models: $(READY) ## the cost models compared: F2, F8, F9 and claims 9 to 11 (F9 with 2 seeds; COSTS= and MODELS= choose)
	$(BIN)/python -m tabular_cache costs results_dir=$(RESULTS) $(COSTS)
	$(BIN)/python -m harness -m study=cost_models cost_model=gp,transfer_linear results_dir=$(RESULTS) $(MODELS) $(GRID)

sensitivities: $(READY) ## the study under other settings (GRID= chooses a part); hist, where its tables are there
	for s in base ard_off log_error winsorized cpu wall log_loss coarse surface; do $(BIN)/python -m harness study=sensitivity setting=$$s \
	  results_dir=$(RESULTS)-sensitivities/$$s $(GRID) || exit; done
	if [ -d $(HIST) ]; then \
	  $(BIN)/python -m harness study=sensitivity evaluator.tables=$(HIST) +evaluator.at_most_configs=tabular_cache/tables \
	    results_dir=$(RESULTS)-sensitivities/hist $(GRID) 'pipeline=[clean,pca_small]' && \
	  $(BIN)/python -m harness study=sensitivity +evaluator.at_most_configs=$(HIST) \
	    results_dir=$(RESULTS)-sensitivities/exact $(GRID) 'pipeline=[clean,pca_small]'; \
	else echo 'hist is left out: $(BIN)/python -m tabular_cache build tables=$(HIST) tree_method=hist' \
	  'pipeline=[clean,pca_small] n_configs=256 builds its tables'; fi
	$(BIN)/python -m analysis sensitivities results_dir=$(RESULTS)-sensitivities out_dir=$(REPORT)

density: $(READY) ## how dense must a table be? replay and surfaces of 6 problems against shipped live runs (about an hour)
	for n in 128 256 512 1024 2048 4096; do \
	  for p in 'dataset=[abalone,phoneme] pipeline=[clean,pca_small]' 'dataset=[hiva,kin8nm] pipeline=[pca_small]'; do \
	    $(BIN)/python -m harness study=density evaluator.n_configs=$$n $$p $(GRID) \
	      results_dir=$(RESULTS)-density/rows-$$n || exit; \
	    $(BIN)/python -m harness study=density evaluator=surface evaluator.n_configs=$$n $$p $(GRID) \
	      results_dir=$(RESULTS)-density/surface-$$n || exit; \
	  done; \
	  $(BIN)/python -m tabular_cache confirm results_dir=$(RESULTS)-density/surface-$$n || exit; \
	done
	$(BIN)/python -m analysis density results_dir=$(RESULTS)-density out_dir=$(REPORT)

utilities: $(READY) ## after reproduce: every utility under three cost rules, 3 seeds; the same against a deadline (hours)
	$(BIN)/python -m harness study=utilities 'seeds=[0,1,2]' results_dir=$(RESULTS) $(GRID)
	$(BIN)/python -m analysis budgets results_dir=$(RESULTS) out_dir=$(REPORT)
	$(BIN)/python -m harness study=deadlines 'seeds=[0,1,2]' iterations=300 budgets=$(REPORT)/budgets.csv \
	  tau=$(lastword $(subst $(comma), ,$(TAUS))) results_dir=$(RESULTS) $(GRID)
	$(BIN)/python -m harness -m +acq=ei,cei lam=0.3 utility=mcms,bmsei tau=$(TAUS) 'seeds=[0,1,2]' iterations=300 \
	  budgets=$(REPORT)/budgets.csv results_dir=$(RESULTS) $(GRID)
	$(BIN)/python -m analysis utilities results_dir=$(RESULTS) out_dir=$(REPORT)

# Cheap evaluations take more of them to spend what EI does in 100; the page names those who ended before. Rows do not
# hold a configuration at any number of rounds that halving promotes it to, so that ASHA and Hyperband compete on
# surfaces only.
LONG := {acq: eipu},{acq: eialpha, alpha: 0.3},{acq: cei, lam: [0.1, 0.3]},{optimizer: cmaes},{optimizer: tpe}
CHEAP := {acq: random},{acq: sobol},{optimizer: cfo},{optimizer: blendsearch}
CONFIRMED := 'dataset=[abalone,hiva,kin8nm,phoneme]' 'pipeline=[pca_small]'
BOARD := $(BIN)/python -m harness 'seeds=[0,1,2]' results_dir=$(RESULTS)-leaderboard
leaderboard: $(READY) ## other projects' optimizers beside ours, on measured rows and on surfaces (needs the extra rivals; hours)
	$(BOARD) +acq=ei $(GRID)
	$(BOARD) 'study.methods=[$(LONG)]' iterations=400 $(GRID)
	$(BOARD) 'study.methods=[$(CHEAP)]' iterations=1000 $(GRID)
	PYTHONHASHSEED=0 $(BOARD) optimizer=smac $(GRID)
	$(BOARD) study=leaderboard evaluator=surface $(GRID)
	$(BOARD) +acq=eipu evaluator=surface iterations=400 $(GRID)
	$(BOARD) 'study.methods=[$(CHEAP),{optimizer: asha},{optimizer: hyperband}]' evaluator=surface iterations=1000 $(GRID)
	$(BOARD) optimizer=optuna_cei evaluator=surface iterations=200 $(GRID)
	PYTHONHASHSEED=0 $(BOARD) optimizer=smac evaluator=surface $(GRID)
	$(BIN)/python -m tabular_cache confirm results_dir=$(RESULTS)-leaderboard $(CONFIRMED)
	$(BIN)/python -m analysis leaderboard results_dir=$(RESULTS)-leaderboard out_dir=$(REPORT)
	PYTHONHASHSEED=0 $(BIN)/python -m harness study=leaderboard_slow 'seeds=[0,1,2]' $(GRID) 'pipeline=[clean]' \
	  results_dir=$(RESULTS)-leaderboard-slow
	$(BIN)/python -m analysis leaderboard results_dir=$(RESULTS)-leaderboard-slow out_dir=$(REPORT)/leaderboard_slow

LONGER := 'study.methods=[{acq: random},{acq: sobol},{optimizer: cfo},{optimizer: blendsearch}]'
registered: $(READY) ## the registered test of methods with knowledge of other data sets (analysis/NEW_METHODS.md; hours)
	$(BIN)/python -m harness study=new_methods results_dir=$(RESULTS)-new $(GRID)
	$(BIN)/python -m harness -m +acq=eicool,carbo,heated 'seeds=[0,1,2,3,4]' results_dir=$(RESULTS)-new $(GRID)
	$(BIN)/python -m harness study=leaderboard 'seeds=[0,1,2,3,4]' results_dir=$(RESULTS)-new $(GRID)
	$(BIN)/python -m harness $(LONGER) 'seeds=[0,1,2,3,4]' iterations=600 results_dir=$(RESULTS)-new $(GRID)
	$(BIN)/python -m analysis new_methods results_dir=$(RESULTS)-new out_dir=$(REPORT)

SEEDS_OF_SECOND := 'seeds=[5,6,7,8,9]' results_dir=$(RESULTS)-stopped $(GRID)
registered-stopped: $(READY) ## the second registered test, of trainings that stop (analysis/NEW_METHODS.md; hours)
	$(BIN)/python -m harness study=stopped $(SEEDS_OF_SECOND)
	$(BIN)/python -m harness -m +acq=eicool,carbo,heated $(SEEDS_OF_SECOND)
	$(BIN)/python -m harness $(LONGER) iterations=600 $(SEEDS_OF_SECOND)
	$(BIN)/python -m analysis new_methods 'method=ei(curves=stopped)' results_dir=$(RESULTS)-stopped out_dir=$(REPORT)/stopped

# The suite starts many processes, which share their bytecode, whatever the environment says of it.
SUITE = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 3 --dist worksteal
test: $(READY) ## the test suite, but for what takes seconds each
	$(SUITE) -m 'not slow'

thorough: $(READY) ## the rest of the suite: what kills, installs, compiles anew and draws whole reports
	$(SUITE) -m slow

bench: $(READY) ## how fast: steps against other libraries, whole runs, executors, utilities (some 20 minutes)
	$(BIN)/python tests/bench

golden: $(READY) ## small studies of every component against kept digests, as other processors would, on all executors
	$(BIN)/python tests/golden targets

check: $(READY) ## lint, format, types
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

chaos: $(READY) ## faults injected into a small study and its bytes compared; hostile inputs (some minutes)
	$(BIN)/python tests/chaos
