"""Utilities and cost rules in tables: cost and error relative to EI, ranks, and what thinking adds to training.

A method that saves ten seconds of training and thinks for twenty has saved nothing: both totals are shown, and budgets
are counted without and with the optimizer's own time.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis import markdown
from analysis.marks import footnote
from analysis.scope import intervals, plural, scope
from analysis.traces import CELL, PROBLEM
from analysis.utilities_deadlines import of_other_budgets, with_deadlines
from analysis.utilities_matched import Complete, at_horizon, complete
from analysis.utilities_numbers import ended_before, rank_means, ranks, relative
from analysis.utilities_pairs import undefined
from analysis.utilities_runs import REFERENCE, Runs
from datasets.errors import BadInput
from datasets.files import write_atomically


def tables(runs: Runs, budgets: pd.Series | None = None) -> tuple[list[tuple[str, list[str]]], pd.DataFrame]:
    """Return titled parts of Markdown and all their numbers; a part that cannot be made says why.

    budgets: as for `utilities_deadlines.with_deadlines`.
    """
    parts: list[tuple[str, list[str]]] = []
    numbers: list[pd.DataFrame] = []
    try:
        whole, n, short = at_horizon(runs)
        found = complete(whole)
        front, ranked = relative(found), ranks(found)
        numbers += [front.assign(part="relative"), ranked.assign(part="ranks")]
        lead = _scope(found, f"after {n} evaluations")
        lead += undefined(whole, deadline=False)
        if short:
            gone = ", ".join(f"{name} ({plural(count, 'run')})" for name, count in sorted(short.items()))
            lead.append(f"Left out, shorter than {n} evaluations or planned for another length: {gone}.")
        parts += [
            ("Utilities and cost rules: cost, error and thinking time", [*lead, _front_table(found, front), TIMES]),
            (
                "Utilities and cost rules: mean ranks",
                [RANKS, _rank_table(found, ranked), ENDED, _ended_table(found, ranked)],
            ),
        ]
    except BadInput as error:
        parts.append(("Utilities and cost rules", [f"Not computed: {error}."]))
    if odd := of_other_budgets(runs, budgets):
        parts.append(("Utilities and cost rules within other deadlines", [odd]))
    for name, part in with_deadlines(runs, budgets).items():
        title = f"Utilities and cost rules within a deadline: {name}"
        try:
            found = complete(part)
        except BadInput as error:
            parts.append((title, [f"Not computed: {error}."]))
            continue
        ranked = rank_means({"best error in time": found.runs.wide(found.runs.final)})
        numbers.append(ranked.assign(part=f"deadline {name}"))
        lead = [*_scope(found, "by what ends in time"), *undefined(part, deadline=True)]
        capped = int(found.runs.table["capped"].sum())
        if capped:
            lead.append(f"{plural(capped, 'run')} made the last iteration before the deadline.")
        parts.append((title, [*lead, _deadline_table(found, ranked)]))
    return parts, pd.concat(numbers, ignore_index=True) if numbers else pd.DataFrame()


TIMES = (
    "Times are means per run. Thinking is fitting both models and choosing, on the host that made the records (ms per "
    "step: mean of the runs' medians; a step counts for at most 10 times its run's median, since compiling and stalls "
    "of the host are not thinking); cost + thinking: what both take together, in percent of EI's."
)
RANKS = (
    "Mean rank of the best error (1 is best, ties share): at the end, within shares of EI's mean training time on the "
    "problem, and within EI's training and thinking time together, where every method's thinking counts as well. Minus "
    "EI's: the mean of the differences, problem by problem and seed by seed."
)
ENDED = "Runs that had made all their evaluations before that, and count there with what they had found by then:"


def _totals(found: Complete) -> pd.DataFrame:
    runs = found.runs
    totals = runs.table.assign(training=runs.training_s, thinking=runs.thought_s)
    mean = totals.groupby("label")[["evaluations", "ms_per_step", "training", "thinking"]].mean()
    return mean.rename(columns={"ms_per_step": "ms per step", "training": "training (s)", "thinking": "thinking (s)"})


def _shown(numbers: pd.DataFrame, labels: Sequence[str], digits: int) -> pd.DataFrame:
    """Return ``value [low, high]``, labels x measures."""
    out = pd.DataFrame(index=list(labels))
    for measure, rows in numbers.groupby("measure", sort=False):
        triples = rows.set_index("label").loc[list(labels), ["value", "low", "high"]].to_numpy(float)
        out[measure] = [markdown.interval(v, low, high, digits) for v, low, high in triples]
    return out


def _front_table(found: Complete, numbers: pd.DataFrame) -> str:
    order = numbers[numbers["measure"] == "error"].sort_values(["value", "label"])["label"].tolist()
    totals, text = _totals(found).loc[order], _shown(numbers, order, 1)
    out = pd.DataFrame({"method": order, "cost (%)": text["cost"].to_numpy()})
    pairs = numbers[numbers["measure"] == "error"].set_index("label").loc[order, "n"].astype(int)
    cells = len(found.runs.table[CELL].drop_duplicates())
    own = [f"{v} ({n} cells)" if n < cells else v for v, n in zip(text["error"], pairs, strict=True)]
    out["error (%)"], out["ms per step"] = own, totals["ms per step"].to_numpy()
    for name in ("training (s)", "thinking (s)"):
        out[name] = totals[name].to_numpy()
    out["both (s)"] = out["training (s)"] + out["thinking (s)"]
    out["cost + thinking (%)"] = text["both"].to_numpy()
    return markdown.table(out)


def _rank_table(found: Complete, numbers: pd.DataFrame) -> str:
    end = _best_first(numbers)
    out = _shown(numbers, end["label"].tolist(), 1)
    out.insert(1, f"{end['measure'].iloc[0]}, minus EI's", _off(end))
    return markdown.table(out.rename_axis("method").reset_index())


def _ended_table(found: Complete, numbers: pd.DataFrame) -> str:
    part = ended_before(found).loc[_best_first(numbers)["label"]]
    out = part.map("{:.0%}".format).rename(columns="{:.0%} of EI's training".format)
    return markdown.table(out.rename_axis("method").reset_index())


def _best_first(numbers: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the first measure, the lowest value first."""
    return numbers[numbers["measure"] == numbers["measure"].iloc[0]].sort_values(["value", "label"])


def _off(numbers: pd.DataFrame) -> list[str]:
    """Return the differences to the reference's ranks in the order of the rows; the reference itself has none."""
    rows = numbers[["label", "off_value", "off_low", "off_high"]].itertuples(index=False, name=None)
    return ["" if name == REFERENCE else markdown.interval(v, low, high, 1) for name, v, low, high in rows]


def _deadline_table(found: Complete, numbers: pd.DataFrame) -> str:
    numbers = numbers.sort_values(["value", "label"])
    order = numbers["label"].tolist()
    totals = _totals(found).loc[order]
    out = pd.DataFrame({"method": order, "mean rank": _shown(numbers, order, 1).iloc[:, 0].to_numpy()})
    out["minus EI's"] = _off(numbers)
    for name in ("evaluations", "ms per step", "training (s)", "thinking (s)"):
        out["evaluations in time" if name == "evaluations" else name] = totals[name].to_numpy()
    out["both (s)"] = out["training (s)"] + out["thinking (s)"]
    return markdown.table(out)


def _scope(found: Complete, what: str) -> list[str]:
    """Return which part of the study the numbers are about: methods, problems, seeds, and what was left out."""
    cells = found.runs.table[[*PROBLEM, "seed"]].drop_duplicates()
    gone = ", ".join(f"{name} ({plural(n, 'cell')})" for name, n in sorted(found.missing.items()))
    parts = [
        f"{plural(len(found.labels), 'method')} {what}, over {scope(cells, found.runs.evaluator)}, "
        f"{plural(len(cells), 'cell')} with every one of them.",
        f"Left out: {plural(found.partial, 'cell')} that lack one." if found.partial else "",
        f"Left out, with fewer cells: {gone}." if gone else "",
        intervals(cells),
        footnote(cells["dataset"]),
    ]
    return [" ".join(part for part in parts if part)]


def write(parts: Sequence[tuple[str, list[str]]], numbers: pd.DataFrame, out_dir: Path) -> Path:
    """Write utilities.md, and utilities_numbers.csv where there is something in it; return the page's path."""
    text = "\n\n".join(["# Utilities", *(f"## {title}\n\n" + "\n\n".join(body) for title, body in parts)])
    path = out_dir / "utilities.md"
    write_atomically(path, f"{text}\n".encode())
    if len(numbers):
        columns = ["part", "measure", "label", "value", "low", "high", "n", "off_value", "off_low", "off_high"]
        table = numbers.reindex(columns=columns)
        text = table.to_csv(index=False, float_format="%.6g", lineterminator="\n")
        write_atomically(out_dir / "utilities_numbers.csv", text.encode())
    return path
