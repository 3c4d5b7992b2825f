"""The records of the data sets, against the configurations and the tables of `datasets/README.md`."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from raw_data import ROOT

import datasets.sets
from datasets.catalogue import Dataset, Entry, Source, entries, entry_of, names
from datasets.errors import BadInput

TEXT = (ROOT / "datasets/README.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line.startswith("| ")]
TABLE = {cells[0]: cells[1:] for cells in ROWS if cells[0] != "name"}


def test_the_study_has_its_18_data_sets_the_figures_three_and_the_opportunity_experiments_four_more():
    assert len(names()) == 18
    assert names("figures") == ("a1a", "a3a", "splice")
    assert names("opportunity") == ("australian", "ionosphere", "sonar", "w1a")
    with pytest.raises(
        BadInput, match=r"unknown data set 'abalon' \(did you mean abalone\?\); known are: .*abalone.*wine"
    ):
        entry_of("abalon")


def test_every_record_says_where_its_data_can_be_had_and_what_they_hash_to():
    for entry in entries().values():
        assert any(source.origin for source in entry.sources), entry.name
        assert len(entry.sources[0].sha256) == 64, entry.name
        for source in entry.sources:
            assert all(len(file.sha256) in (0, 64) for file in source.files), entry.name
            if any(not file.sha256 for file in source.files):  # only a download may write such a file
                assert source.origin is not None, entry.name
    marked = {name: entry.sources[0].mark for name, entry in entries().items() if entry.sources[0].mark}
    assert marked == {"hiva": "partial", "mtp": "stand-in", "bach": "identity uncertain"}


@pytest.mark.parametrize(("use", "mark", "message"), [
    ("fun", "", "use must be one of study, figures, opportunity, other, got 'fun'"),
    ("study", "doubtful", "mark must be one of .*, got {'doubtful'}"),
])  # fmt: skip
def test_an_unknown_use_or_mark_is_refused(use, mark, message):
    with pytest.raises(ValueError, match=message):
        Entry("x", "X", "t", 1, 2, "none", [Source("a", [], lambda: None, 1, mark=mark)], use=use)


@pytest.mark.parametrize(("rows", "task", "classes", "message"), [
    (3, "ranking", (), "task must be one of regression, binary, multiclass, got 'ranking'"),
    (2, "regression", (), "X has 2 rows and y 3"),
    (3, "regression", ("a",), r"classes must be \(\) for regression, got \('a',\)"),
    (3, "binary", (), "classes must be the tuple of the classes' labels, got"),
])  # fmt: skip
def test_a_data_set_that_makes_no_sense_is_refused(rows, task, classes, message):
    with pytest.raises(BadInput, match=f"data set mine: {message}"):
        Dataset("mine", pd.DataFrame({"a": range(rows)}), np.zeros(3), task, classes, "", "", "")


def test_each_data_set_has_one_configuration_that_names_it():
    files = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / "configs/dataset").glob("*.yaml")}
    del files["csv"]  # a file of the user's own
    assert set(files) == set(entries())
    for name, content in files.items():
        assert content == {name: {"_target_": "datasets.load", "name": name}}


def test_a_row_of_the_readme_says_what_the_record_says():
    others = [name for name in entries() if entries()[name].use != "study"]
    assert list(TABLE)[:18] == list(names())
    assert sorted(list(TABLE)[18:]) == others
    for name, entry in entries().items():
        (files, size, task, target, reading), source = TABLE[name], entry.sources[0]
        first, *more = re.findall(r"`([^`]+)`", files)
        assert [first, *more] == [f"{source.folder}/{source.files[0].name}", *(file.name for file in source.files[1:])]
        assert (size, task) == (f"{source.rows} x {entry.columns}", entry.task)
        assert re.match(r"[\w ]+", target)[0].split(" ")[0] == entry.target  # type: ignore[index]
        assert (f"*{source.mark}*" in reading) == (source.mark in ("partial", "stand-in"))


def test_a_new_module_is_a_new_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = "from dataclasses import replace\nfrom datasets.sets import uci\n{} = replace(uci.ABALONE, name='{}')\n"
    (tmp_path / "seashell.py").write_text(source.format("SEASHELL", "seashell"))
    study = set(names())
    monkeypatch.setattr(datasets.sets, "__path__", [*datasets.sets.__path__, str(tmp_path)])
    entries.cache_clear()
    try:
        assert set(names()) == study | {"seashell"}
        (tmp_path / "limpet.py").write_text(source.format("LIMPET", "abalone"))
        entries.cache_clear()
        with pytest.raises(ValueError, match=r"describes 'abalone', which another record describes"):
            entries()
    finally:
        monkeypatch.undo()
        for name in ("seashell", "limpet"):
            sys.modules.pop(f"datasets.sets.{name}", None)
        entries.cache_clear()


def test_importing_the_package_is_light_and_pins_the_numerical_libraries_to_one_thread():
    code = (
        "import sys, datasets, pipelines; datasets.names(); pipelines.names();"
        "print(sorted({'pandas', 'sklearn', 'xgboost', 'pooch', 'pyarrow', 'scipy', 'PIL'} & set(sys.modules)));"
        "import numpy, threadpoolctl; numpy.ones((2, 2)) @ numpy.ones((2, 2));"
        "print({p['num_threads'] for p in threadpoolctl.threadpool_info()})"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["[]", "{1}", ""]
