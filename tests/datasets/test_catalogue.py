import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import datasets.sets
from datasets.catalogue import Entry, File, Source, entries, entry_of, names
from datasets.errors import BadInput

ROOT = Path(__file__).resolve().parents[2]
STUDY = {
    *("abalone", "satellite", "turkiye", "coil2000", "parkinsons", "pendigits", "hiva", "mtp", "texture"),
    *("bach", "satimage_code", "wine", "wind", "kin8nm", "bank32nh", "phoneme", "spam", "letters"),
}


def record(**changes: object) -> Entry:
    source = Source((File("a/b", "00"),), parse=lambda files: None, rows=1, sha256="")
    given = {"name": "x", "title": "X", "task": "binary", "target": "t", "columns": 1, "classes": 2}
    return Entry(**(given | {"licence": "none", "sources": (source,)} | changes))


def test_the_study_has_its_18_data_sets_the_figures_three_and_the_opportunity_experiments_four_more():
    assert set(names()) == STUDY
    assert len(names()) == len(STUDY) == 18
    assert names("figures") == ("a1a", "a3a", "splice")
    assert names("opportunity") == ("australian", "ionosphere", "sonar", "w1a")


def test_an_unknown_name_is_told_what_is_known():
    with pytest.raises(BadInput, match=r"unknown data set 'abalon'; known are: .*abalone.*wine"):
        entry_of("abalon")


def test_every_record_says_where_its_data_can_be_had_and_what_they_hash_to():
    for entry in entries().values():
        assert any(source.origin for source in entry.sources), entry.name
        assert len(entry.sources[0].sha256) == 64, entry.name
        for source in entry.sources:
            assert all(len(file.sha256) in (0, 64) for file in source.files), entry.name
            if any(not file.sha256 for file in source.files):  # only a download may write such a file
                assert source.origin is not None, entry.name


def test_marks_are_on_the_reference_copies_that_need_them():
    marked = {name: entry.sources[0].mark for name, entry in entries().items() if entry.sources[0].mark}
    assert marked == {"hiva": "partial", "mtp": "stand-in", "bach": "identity uncertain"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "ranking"}, "task must be one of regression, binary, multiclass"),
        ({"task": "regression"}, "regression task cannot have 2 classes"),
        ({"task": "multiclass"}, "multiclass task cannot have 2 classes"),
        ({"classes": 3}, "binary task cannot have 3 classes"),
        ({"sources": ()}, "at least one source"),
        ({"use": "fun"}, "use must be one of study, figures, opportunity, other, got 'fun'"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        record(**changes)


def test_an_unknown_mark_is_refused():
    doubtful = dataclasses.replace(record().sources[0], mark="doubtful")
    with pytest.raises(ValueError, match="mark must be one of"):
        record(sources=(doubtful,))


def test_each_data_set_has_one_configuration_that_names_it():
    files = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / "configs/dataset").glob("*.yaml")}
    del files["csv"]  # a file of the user's own
    assert set(files) == set(entries())
    for name, content in files.items():
        assert content == {name: {"_target_": "datasets.load", "name": name}}


def test_a_new_module_is_a_new_data_set(tmp_path, monkeypatch):
    source = (
        "from dataclasses import replace\n\nfrom datasets.sets import uci\n\n{} = replace(uci.ABALONE, name='{}')\n"
    )
    (tmp_path / "seashell.py").write_text(source.format("SEASHELL", "seashell"))
    monkeypatch.setattr(datasets.sets, "__path__", [*datasets.sets.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "datasets.sets.seashell", raising=False)
    entries.cache_clear()
    try:
        assert set(names()) == STUDY | {"seashell"}
        (tmp_path / "limpet.py").write_text(source.format("LIMPET", "abalone"))
        entries.cache_clear()
        with pytest.raises(ValueError, match=r"describes 'abalone', which another record describes"):
            entries()
    finally:
        monkeypatch.undo()
        sys.modules.pop("datasets.sets.seashell", None)
        sys.modules.pop("datasets.sets.limpet", None)
        entries.cache_clear()


def test_importing_the_package_and_reading_the_catalogue_is_light():
    heavy = "{'pandas', 'sklearn', 'openml', 'pooch', 'pyarrow', 'scipy', 'PIL', 'requests'}"
    code = f"import sys, datasets; datasets.names(); print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_the_package_pins_the_numerical_libraries_to_one_thread():
    code = (
        "import datasets, numpy, threadpoolctl; numpy.ones((2, 2)) @ numpy.ones((2, 2));"
        "print({p['num_threads'] for p in threadpoolctl.threadpool_info()})"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{1}"
