"""A small study on made-up tables (fixture `tables`), how it is run, and what files it leaves."""

from pathlib import Path

from harness.execution import local, serial
from harness.grid import Method, Study
from harness.study import blocks, run_study

IGNORE = {"_target_": "harness.acquisitions.cost_rules.Ignore"}
CEI = {"_target_": "harness.acquisitions.cost_rules.Contextual", "lam": 0.3}


def grid(tables: Path, seeds: tuple[int, ...] = (0, 1), iterations: int = 12) -> Study:
    """EI and CEI on the problems a/p and b/p of a folder of made-up tables."""
    return Study(
        datasets={name: {"name": name} for name in ("a", "b")},
        pipelines={"p": {"name": "p"}},
        methods=[Method("ei", "ei", IGNORE), Method("cei", "cei(lam=0.3)", CEI)],
        seeds=seeds,
        iterations=iterations,
        n_initial=5,
        tau=None,
        components={
            "evaluator": {"_target_": "tabular_cache.replay.Replay", "tables": str(tables)},
            "utility": {"_target_": "harness.acquisitions.ei.ExpectedImprovement"},
            "surrogate": {"_target_": "harness.surrogates.gp.GaussianProcess"},
            "cost_model": {"_target_": "harness.cost_models.linear.LowVariance", "features": ["n_estimators"]},
        },
        names={"evaluator": "replay", "utility": "ei", "surrogate": "gp", "cost_model": "lv1"},
    )


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of records below a folder but the timings, which differ from run to run."""
    files = folder.rglob("seeds-*.parquet")
    return {str(p.relative_to(folder)): p.read_bytes() for p in files if "timings" not in p.name}


def do(study: Study, results: Path, n_jobs: int = 0) -> int:
    """Run what is missing of a study, in this process or in `n_jobs` others; return how many runs that was."""
    todo, skipped = blocks(study, results)
    with local(n_jobs) if n_jobs else serial() as executor:
        report = run_study(todo, skipped, executor, "test")
    assert not report.failed
    return report.runs
