"""The numbers of F8: RMSE per problem of online and transferred cost models, with what each box is called."""

import pandas as pd

from analysis.costs import NAMES, models, per_problem
from analysis.marks import footnote
from analysis.scope import plural, scope, sentence
from analysis.traces import PROBLEM
from datasets.errors import BadInput

PANELS = {"regression": "regression", "binary": "classification", "multiclass": "classification"}
_ONLINE = (("lv3", 4), ("lv3", 10), ("lv3", 100), ("gp", 4), ("gp", 10), ("gp", 100), ("hybrid", 4), ("hybrid", 10))
_TRANSFER = "transfer_"


def boxes_of(costs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per problem and box: rmse (mean over seeds), panel, box, label, transferred.

    label: model, training size and number of problems as they are in that panel. Raises BadInput without records of
    transferred models.
    """
    transferred = [(m, None) for m in models(costs) if m.startswith(_TRANSFER)]
    if not transferred:
        raise BadInput("F8 needs records of transferred models: cost_models=[transfer_xgboost,...]")
    present = set(zip(costs["cost_model"], costs["n"], strict=True))
    online = [(m, n) for m, n in _ONLINE if (m, n) in present]
    return pd.concat([_box(costs[costs["cost_model"] == m], m, n) for m, n in [*online, *transferred]],
                     ignore_index=True)  # fmt: skip


def _box(own: pd.DataFrame, name: str, n: int | None) -> pd.DataFrame:
    """Return the rows of one model after n evaluations; None: of a transferred one, whatever n."""
    label = NAMES.get(name, name.removeprefix(_TRANSFER).replace("_", " "))
    rows = per_problem(own, n)
    rows = rows.assign(
        panel=rows["task"].map(PANELS), box=label if n is None else f"{label} [{n}]", transferred=n is None
    )
    trained_on = own.groupby(own["task"].map(PANELS))["trained_on"].median()
    count, named = rows["panel"].value_counts(), {}
    for panel in set(rows["panel"]):
        size = float(trained_on[panel]) if n is None else n
        named[panel] = f"{label} [{size:,.0f}], {count[panel]}"
    return rows.assign(label=rows["panel"].map(named))


def in_every_box(boxes: pd.DataFrame) -> pd.Index:
    """Return the problems (dataset, pipeline) that every box has."""
    count = boxes.groupby(PROBLEM)["box"].nunique()
    return count.index[count == boxes["box"].nunique()]


def caption(costs: pd.DataFrame, boxes: pd.DataFrame) -> str:
    """Return the caption of F8."""
    cells = costs[costs["cost_model"].isin(set(boxes["cost_model"]))]
    return sentence(
        "F8. Online (orange) and transferred (blue) cost models: RMSE of predicted log cost per problem, mean over",
        "seeds, as in F2. In brackets the training size: evaluations of the problem itself, or rows of the tables of",
        "the other data sets (median over the panel's problems); then the panel's number of problems, those whose",
        f"tables are long enough. {scope(cells, 'tables')}, box: quartiles, whiskers: 1.5 times their distance.",
        f"Diamonds: medians over the {plural(len(in_every_box(boxes)), 'problem')} that every box has, of both panels.",
        footnote(cells["dataset"]),
    )
