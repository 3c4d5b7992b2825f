"""The tables of `datasets/README.md` against the catalogue, and its steps of the split against `split`."""

import hashlib
import re
from pathlib import Path

import numpy as np
import pandas
import pytest
from conftest import needs_data

import datasets
from datasets import Dataset, load, split
from datasets.catalogue import entries

TEXT = (Path(datasets.__file__).parent / "README.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line.startswith("| ")]
TABLE = {cells[0]: cells[1:] for cells in ROWS if cells[0] != "name"}


def test_every_data_set_has_a_row_those_of_the_study_first() -> None:
    study, others = datasets.names(), [name for name in entries() if entries()[name].use != "study"]
    assert list(TABLE)[: len(study)] == list(study)
    assert sorted(list(TABLE)[len(study) :]) == others


@pytest.mark.parametrize("name", entries())
def test_a_row_says_what_the_record_says(name: str) -> None:
    entry, (files, size, task, target, reading) = entries()[name], TABLE[name]
    folder = ""
    for file, said in zip(entry.sources[0].files, re.findall(r"`([^`]+)`", files), strict=True):
        folder = folder or f"{Path(file.path).parent}/"  # told once
        assert file.path in (said, folder + said)
    assert size == f"{entry.sources[0].rows} x {entry.columns}"
    assert task == entry.task
    assert re.match(r"[\w ]+", target)[0].split(" ")[0] == entry.target  # type: ignore[index]
    assert (f"*{entry.sources[0].mark}*" in reading) == (entry.sources[0].mark in ("partial", "stand-in"))


# without `letters`, whose images take seconds to read
@needs_data
@pytest.mark.parametrize("name", [name for name in entries() if entries()[name].classes and name != "letters"])
def test_classes_are_those_of_the_row(name: str) -> None:
    classes, said = load(name, download=False).classes, TABLE[name][3].partition(": ")[2]
    if span := re.fullmatch(r"(\d+) to (\d+)", said):
        assert classes == tuple(map(str, range(int(span[1]), int(span[2]) + 1)))
    elif name == "bach":
        assert said == f"{len(classes)} chord labels"
    else:
        assert classes == tuple(said.split(", "))


@pytest.mark.parametrize(("task", "seed"), [("regression", 0), ("multiclass", 0), ("multiclass", 7)])
def test_the_five_steps_give_the_split(task: str, seed: int) -> None:
    n = 203
    y = np.random.default_rng(1).integers(0, 4, n)
    X = pandas.DataFrame({"a": y})
    data = Dataset("made up", X, y if task != "regression" else y * 1.0, task, tuple("abcd"), "", "", "")
    w = np.frombuffer(hashlib.sha256(b"made up").digest()[:16], "<u4").tolist()
    order = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *w]))).permutation(n)
    assert np.array_equal(order, np.random.default_rng([seed, *w]).permutation(n))
    if task != "regression":
        order = order[np.argsort(y[order], kind="stable")]
    dealt: list[list[int]] = [[], [], []]
    for place, row in enumerate(order.tolist()):
        dealt[(0, 1, 0, 2, 0)[place % 5]].append(row)
    rows = split(data, seed)
    assert [sorted(part) for part in dealt] == [rows.train.tolist(), rows.valid.tolist(), rows.test.tolist()]
