"""Command line: ``python -m pipelines list|check|steps [data sets...]``.

list: the width before and after, layout and fit seconds of each problem. check: whether the training matrices
of each data set differ pairwise by more than a monotone map of columns. steps: which columns of each data set the
steps of the pipelines act on, as the Markdown table of `pipelines/README.md`. Exit code 2 if the input is wrong,
1 if a pair does not differ.
"""

import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from datasets import load, split
from datasets.catalogue import entry_of
from datasets.catalogue import names as dataset_names
from datasets.errors import BadInput, OneLineParser, reader_may_leave
from datasets.signals import exit_with
from pipelines import names, prepare

if TYPE_CHECKING:
    import pandas

FEW_NAMES = 6  # columns that the table of steps lists by name


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code."""
    parser = OneLineParser(prog="python -m pipelines", description="The feature pipelines.")
    parser.add_argument("command", choices=("list", "check", "steps"))
    parser.add_argument("datasets", nargs="*", help="names of data sets; none: all of the study")
    parser.add_argument("--verbose", action="store_true", help="log the columns that are dropped")
    try:
        given = parser.parse_args(arguments)
        logging.basicConfig(level=logging.INFO if given.verbose else logging.WARNING, format="%(message)s")
        command = {"list": _list, "check": _check, "steps": _steps}[given.command]
        with reader_may_leave():
            return command([entry_of(name).name for name in given.datasets] or dataset_names())
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _list(chosen: Sequence[str]) -> int:
    from scipy import sparse

    print(f"{'data set':15s}{'pipeline':16s} before  after  layout    fit s dropped")
    for dataset in chosen:
        for name in names():
            p = prepare(dataset, name)
            layout = "sparse" if sparse.issparse(p.X_train) else "dense"
            print(
                f"{dataset:15s}{name:16s}{p.width_before:7d}{p.width_after:7d}  "
                f"{layout:7s}{p.fit_seconds:8.2f}{len(p.dropped):8d}",
                flush=True,
            )
    return 0


def _check(chosen: Sequence[str]) -> int:
    from pipelines.identity import same_pairs

    failed = False
    for dataset in chosen:
        pairs = same_pairs({name: prepare(dataset, name).X_train for name in names()})
        failed = failed or bool(pairs)
        verdict = "; ".join(f"{a} = {b}" for a, b in pairs)
        print(f"{dataset:15s}{f'SAME: {verdict}' if pairs else 'all pairs differ'}", flush=True)
    return 1 if failed else 0


def _steps(chosen: Sequence[str]) -> int:
    for number, dataset in enumerate(chosen):
        data = load(dataset)
        line = {"data set": dataset} | _touched(data.X.iloc[split(data, 0).train])
        if not number:
            print(f"| {' | '.join(line)} |\n|{'---|' * len(line)}")
        print(f"| {' | '.join(line.values())} |", flush=True)
    return 0


def _touched(X: "pandas.DataFrame") -> dict[str, str]:
    """Return how many columns of the training rows `X` each step acts on, with their names where there are few."""
    from pipelines.columns import column_kinds, numbers

    plain, detected, extreme = (column_kinds(X, *given).positions for given in ((False,), (True,), (True, True)))
    gaps = [k for k in plain["numeric"] if X.iloc[:, [k]].apply(numbers).isna().any(axis=None)]
    found = {
        "inputs": range(X.shape[1]),
        "tf-idf (all)": plain["text"],
        "one-hot of categoricals (all)": plain["categorical"],
        "median imputation (all but clean)": gaps,
        "one-hot of detected ones (onehot, onehot_svd)": detected["detected"],
        "bins (onehot, onehot_svd)": detected["numeric"],
        "quantile map or log (quantile_pca, log_pca)": extreme["extreme"],
        "one-hot of detected ones (quantile_pca, log_pca)": extreme["detected"],
    }
    said = {}
    for step, positions in found.items():
        few = 0 < len(positions) <= FEW_NAMES and step != "inputs"
        listed = ", ".join(str(X.columns[k]) for k in positions)
        said[step] = f"{len(positions)}: {listed}" if few else str(len(positions))
    return said


if __name__ == "__main__":
    exit_with(main)
