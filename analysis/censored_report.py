"""Tables about censored costs: treatments, cost models with time-outs, configured solvers."""

from pathlib import Path

import pandas as pd

from analysis.censored import COST_TREATMENTS, TREATMENTS
from analysis.censored_figures import factor
from analysis.markdown import interval, number, table
from analysis.scope import scope
from datasets.files import write_atomically


def write(parts: list[str], out_dir: Path) -> Path:
    """Write `censored.md` of these parts and return its path."""
    path = out_dir / "censored.md"
    write_atomically(path, ("\n\n".join(["# Censored costs", *parts]) + "\n").encode())
    return path


def slack_table(numbers: pd.DataFrame, cells: pd.DataFrame) -> str:
    """Return the table of treatments over slack factors."""
    rows = []
    for (n, slack), part in numbers.groupby(["n", "slack"]):
        own = part.set_index("treatment")
        row = {"n": n, "slack": factor(float(str(slack))), "stopped, %": f"{100 * own['censored'].iloc[0]:.0f}"}
        for t in TREATMENTS:
            value, low, high = (float(own.loc[t, name]) for name in ("rmse", "low", "high"))  # type: ignore[arg-type]
            row[f"RMSE {t}"] = interval(value, low, high, 2)
        rows.append(row | {f"LL {t}": number(float(own.loc[t, "log_likelihood"])) for t in TREATMENTS})  # type: ignore[arg-type]
    return (
        f"## Capped evaluations, on the tables\n\n{scope(cells, 'tables')}. RMSE of log cost (natural log; mean "
        "and 95 % interval over cells), LL: mean log-likelihood of a true log cost, median over cells, sd at least "
        "0.01.\n\n"
        f"{table(pd.DataFrame(rows))}"
    )


def solver_table(found: pd.DataFrame) -> str:
    """Return the same on solver runtimes, means and medians over configuration runs."""
    rows = []
    for (scenario, slack), part in found.groupby(["scenario", found["slack"].fillna(float("inf"))]):
        own = part.groupby("treatment")
        row = {"scenario": scenario, "slack": factor(float(str(slack))), "runs": part["run"].nunique()}
        row["stopped, %"] = f"{100 * part['censored'].mean():.0f}"
        rmse, density = own["rmse"].mean(), own["log_likelihood"].median()
        row |= {f"RMSE {t}": f"{rmse[t]:.2f}" for t in TREATMENTS} | {f"LL {t}": number(density[t]) for t in TREATMENTS}
        rows.append(row)
    return (
        "## Capped evaluations, on solver runtimes\n\nThe runs of configurators without capping; a random half "
        "of the configurations learned from, capped per instance, the others asked about, every run counting.\n\n"
        + table(pd.DataFrame(rows))
    )


def model_table(numbers: pd.DataFrame, cells: pd.DataFrame) -> str:
    """Return the table of cost models where a share of the trainings timed out."""
    rows = []
    for row in numbers.to_dict("records"):
        shown = {"n": row["n"], "cost model": row["model"]} | {t: f"{row[t]:.3f}" for t in COST_TREATMENTS}
        shown |= {f"{t}, long ones": f"{row[f'{t}_beyond']:.3f}" for t in COST_TREATMENTS}
        rows.append(shown | {"gain over bound": interval(row["gain"], row["gain_low"], row["gain_high"], 3)})
    share = 100 * float(cells["share"].dropna().iloc[0])
    return (
        f"## Cost models when {share:.0f} % of the trainings time out\n\n{scope(cells, 'tables')}. RMSE of log cost on "
        "configurations not learned from, of all and of those beyond the time limit. imputed: the default; bound: a "
        "time-out's cost taken as it is; known: without a limit. gain: paired, 95 % interval.\n\n"
        f"{table(pd.DataFrame(rows))}"
    )


def configured_table(medians: pd.DataFrame) -> str:
    """Return the medians of test runtime; the best group is bold."""
    rows = []
    for (scenario, default), part in medians.groupby(["scenario", "default_s"], dropna=False):
        row = {"scenario": scenario, "default": number(float(str(default)))}
        for one in part.sort_values("slack").to_dict("records"):
            value = number(one["median_s"])
            row[factor(one["slack"])] = f"**{value}**" if one["best"] else value
        row["runs"] = f"{part['runs'].min()}-{part['runs'].max()}"
        row["solver runs / configurations"] = (
            f"{part['target_runs'].median():.0f} / {part['configurations'].median():.0f}"
        )
        row["unsolved tests"] = f"{part['unsolved'].mean():.2f}"
        row["own time, %"] = f"{100 * part['own_share'].mean():.0f}"
        rows.append(row)
    return (
        "## Configured solvers\n\nMedian over runs of the mean CPU seconds on test instances, per slack factor; bold: "
        "the lowest, and those that a Mann-Whitney U test does not tell from it (p >= 0.05). unsolved "
        "tests: test instances per run that took kappa_max or crashed, which counts for that.\n\n"
        + table(pd.DataFrame(rows))
    )
