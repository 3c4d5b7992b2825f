"""A user's own delimited text file as a data set: `load_csv`. What is guessed follows a stated rule and can be set."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from datasets.catalogue import Dataset, entries
from datasets.errors import BadInput

if TYPE_CHECKING:
    import pandas

FEWEST_ROWS = 20  # 12 to train on, 4 to choose by, 4 to test on
FEW_VALUES = 10  # whole numbers with no more different values than this are classes, and such text may be labels
MOST_CLASSES = 100
TASKS = ("auto", "regression", "classification")


def load_csv(
    name: str | None = None,
    path: str | None = None,
    target: str | None = None,
    task: str = "auto",
    sep: str = "auto",
    decimal: str = ".",
    encoding: str = "utf-8",
    drop: str | Sequence[str] | None = (),
    keep: str | Sequence[str] | None = (),
) -> Dataset:
    """Return the file's rows as a data set to tune on; `Dataset.note` says what was left out or converted.

    name: the file's own where None. target: the column to predict; rows without it are left out.
    task: regression or classification; ``auto`` follows `infer_task`. sep: the separator, or
    comma, semicolon, tab, bar; ``auto`` takes the one of these that parts the first lines most evenly. decimal: the
    mark of decimals, or point, comma. drop: columns to leave out, one name or several. keep: columns that are inputs
    although they look like row numbers (see `own_columns.is_row_number`), and text although it looks like numbers.

    Raises BadInput, with what is allowed, for whatever cannot be tuned on.
    """
    from datasets.own_columns import inputs, listed
    from datasets.own_files import decimal_mark, read

    if path is None or target is None:
        missing = "path" if path is None else "target"
        raise BadInput(f"dataset.{missing} is not set: dataset.path=my.csv dataset.target=COLUMN")
    if task not in TASKS:
        raise BadInput(f"dataset.task must be one of {', '.join(TASKS)}, got {task!r}")
    file = Path(str(path))
    mark = decimal_mark(str(decimal))
    frame = read(file, str(sep), mark, str(encoding))
    label = _checked_name(file.name if name is None else str(name))
    frame, notes = _with_target(frame, str(target), file)
    y, classes, kind = _encoded(frame[str(target)], task, mark)
    X, more = inputs(frame.drop(columns=str(target)), listed("drop", drop), listed("keep", keep), mark)
    return Dataset(label, X, y, kind, classes, "", "; ".join([*notes, *more]), _sha256(X, y, classes))


def load_rows(
    path: str, data: Dataset, sep: str = "auto", decimal: str = ".", encoding: str = "utf-8"
) -> "pandas.DataFrame":
    """Return the rows of another file as inputs like those of `data`, for a model fitted on these; no target needed.

    What was text there is text here, whatever these rows alone look like. Raises BadInput for a file that cannot be
    read, or lacks a column.
    """
    from datasets.own_columns import like, texts
    from datasets.own_files import read

    return like(data.X, read(Path(path), sep, decimal, encoding, texts(data.X)), path)


def infer_task(target: "pandas.Series") -> str:
    """Return ``classification`` for text, yes/no, and whole numbers with at most 10 different values, else regression.

    Two different values are always classes.
    """
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    distinct = target.nunique()
    if is_bool_dtype(target) or not is_numeric_dtype(target) or distinct == 2:
        return "classification"
    values = target.to_numpy(dtype=np.float64)
    whole = bool(np.all(values == np.rint(values)))
    return "classification" if whole and distinct <= FEW_VALUES else "regression"


def _checked_name(name: str) -> str:
    """Return the name under which records are kept: a plain file name, and none of the study's."""
    if not re.fullmatch(r"[^/\\\0.][^/\\\0]*", name):
        raise BadInput(f"dataset.name must be a plain name without slashes or a leading dot, got {name!r}")
    if name in entries():
        raise BadInput(f"dataset.name={name} is one of the study's data sets: give another, dataset.name=my_{name}")
    return name


def _with_target(frame: "pandas.DataFrame", target: str, file: Path) -> tuple["pandas.DataFrame", list[str]]:
    """Return the rows that have a target, and a note on the others."""
    if target not in frame.columns:
        raise BadInput(f"{file} has no column {target!r}; its columns: {_listed(frame.columns)}")
    there = frame[target].notna()
    notes = [] if there.all() else [f"{int((~there).sum()):,} rows without {target} left out"]
    frame = frame[there].reset_index(drop=True)
    if len(frame) < FEWEST_ROWS:
        raise BadInput(f"{file}: {len(frame)} rows with a value in {target!r}; {FEWEST_ROWS} or more are needed")
    if frame.shape[1] < 2:
        raise BadInput(f"{file} has no column beside {target!r}: there is nothing to predict it from")
    if frame[target].nunique() < 2:
        raise BadInput(f"{file}: {target!r} is always {frame[target].iloc[0]}: there is nothing to predict")
    return frame, notes


def _encoded(target: "pandas.Series", task: str, decimal: str) -> tuple[Any, tuple[str, ...], str]:
    """Return (y, classes, task as the harness names it)."""
    from datasets.loading import encode_target
    from datasets.own_numbers import check_commas, meant_as_numbers

    if task != "classification":
        check_commas(target, decimal, "dataset.task=classification")
    note = meant_as_numbers(target) if task == "auto" and target.nunique() > FEW_VALUES else ""
    if note:
        raise BadInput(f"target {note}; dataset.task=classification takes them as classes")
    if (infer_task(target) if task == "auto" else task) == "regression":
        return *encode_target(_numeric(target), "regression"), "regression"
    distinct = target.nunique()
    if distinct > min(MOST_CLASSES, len(target) // 2):
        raise BadInput(
            f"target {target.name!r} has {distinct} different values, such as {target.iloc[0]!r}: too many classes for "
            f"{len(target)} rows (at most {MOST_CLASSES}, and two rows each); numbers need dataset.task=regression"
        )
    y, classes = encode_target(target, "classification")
    return y, classes, "binary" if len(classes) == 2 else "multiclass"


def _numeric(target: "pandas.Series") -> "pandas.Series":
    import pandas

    values = pandas.to_numeric(target, errors="coerce")
    if values.isna().any():
        raise BadInput(
            f"target {target.name!r} is not numeric, for example {target[values.isna()].iloc[0]!r}: numbers are to be "
            "written without marks of thousands and units, labels need dataset.task=classification"
        )
    largest = float(values.abs().max())
    if np.isfinite(largest) and largest > float(np.finfo(np.float32).max):
        raise BadInput(f"target {target.name!r} goes to {largest:.3g}, beyond the numbers that XGBoost holds (3.4e38)")
    return values.astype(np.float64)


def _sha256(X: "pandas.DataFrame", y: np.ndarray, classes: tuple[str, ...]) -> str:
    """Return the checksum of the values; a missing string is not any string."""
    from datasets.digest import values_sha256

    texts = [c for c in X.columns if X[c].dtype.kind not in "biuf"]
    plain = X.astype(dict.fromkeys(texts, object))
    plain[texts] = plain[texts].map(lambda v: v if isinstance(v, str) else f"\0{v}")
    return values_sha256(plain, y, classes)


def _listed(columns: "pandas.Index", most: int = 12) -> str:
    shown = ", ".join(map(str, columns[:most]))
    return shown + (f" and {len(columns) - most} more" if len(columns) > most else "")
