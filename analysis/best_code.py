"""What to do with the best configuration: the lines of Python that fit it and predict rows to come."""

import inspect
from collections.abc import Mapping
from typing import Any

from datasets.csv_file import load_csv


def code(spec: Mapping[str, Any], task: str, line: str) -> list[str]:
    """Return lines of Python that fit this model on all rows of the file and predict those of another; [] without one.

    They read the file and prepare its columns as the runs did, which the line of the model alone would not.
    """
    config = spec["dataset_config"]
    if config["_target_"] != "datasets.csv_file.load_csv":
        return []
    usual = {name: p.default for name, p in inspect.signature(load_csv).parameters.items()}
    given = {k: v for k, v in config.items() if k not in ("_target_", "name") and v not in (usual[k], [])}
    reading = {k: v for k, v in given.items() if k in ("sep", "decimal", "encoding")}
    more = "".join(f", {k}={v!r}" for k, v in reading.items())
    found = f"model.predict(inputs.matrix(load_rows('new.csv', data{more})))"
    return [
        "from datasets.csv_file import load_csv, load_rows",
        "from pipelines.prepared import Fitted",
        f"from xgboost import {line.partition('(')[0]}",
        f"data = load_csv({', '.join(f'{k}={v!r}' for k, v in given.items())})",
        f"inputs = Fitted(data, {str(spec['pipeline'])!r})",
        f"model = {line}.fit(inputs.matrix(data.X), data.y)",
        f"print({found if task == 'regression' else f'[data.classes[int(code)] for code in {found}]'})",
    ]
