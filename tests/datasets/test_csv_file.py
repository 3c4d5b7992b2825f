"""A user's own file: what is inferred, what is left out, and one clear line for what cannot be used."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from datasets import encode_target
from datasets.catalogue import Dataset
from datasets.csv_file import (
    column_names,
    date_forms,
    find_separator,
    infer_task,
    input_columns,
    load_csv,
    load_rows,
    row_number,
)
from datasets.errors import BadInput
from pipelines import prepare

N = 60


def houses(n: int = N) -> pd.DataFrame:
    """Numbers, whole numbers, words, a yes/no column, dates, and a price that depends on them."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "area": rng.uniform(20, 200, n).round(1), "rooms": rng.integers(1, 7, n),
        "town": rng.choice(["Ulm", "Köln", "Bonn"], n), "garden": rng.choice([True, False], n),
        "sold": pd.date_range("2021-03-01", periods=n, freq="5D").strftime("%Y-%m-%d"),
    })  # fmt: skip
    return frame.assign(price=(3000 * frame["area"] + 2e4 * frame["rooms"] + rng.normal(0, 1e3, n)).round(2))


def columns(**values: Any) -> tuple[pd.DataFrame, list[str]]:
    return input_columns(pd.DataFrame(values), [], [])


def as_data(X: pd.DataFrame) -> Dataset:
    return Dataset("there", X, np.zeros(len(X)), "regression", (), "", "", "")


def written(folder: Path, frame: pd.DataFrame, name: str = "my.csv", **settings: object) -> str:
    frame.to_csv(folder / name, index=False, **settings)  # type: ignore[call-overload]
    return str(folder / name)


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    frame = houses()
    found = load_csv(None, written(tmp_path, frame), "price")
    assert (found.name, found.task, found.classes, found.mark) == ("my.csv", "regression", (), "")
    np.testing.assert_array_equal(found.y, frame["price"])
    assert list(found.X) == ["area", "rooms", "town", "garden", "sold (day)", "sold (month)", "sold (weekday)"]
    for name in ("area", "rooms", "town", "garden"):
        assert found.X[name].tolist() == frame[name].tolist()
    assert found.X["sold (weekday)"].tolist() == pd.to_datetime(frame["sold"]).dt.day_of_week.tolist()
    assert np.diff(found.X["sold (day)"]).tolist() == [5.0] * (N - 1)
    assert found.note == "sold read as dates: day, month, weekday"
    assert load_csv(None, written(tmp_path, frame), "price").sha256 == found.sha256
    frame.loc[3, "town"] = "Ulm" if frame.loc[3, "town"] != "Ulm" else "Bonn"
    assert load_csv(None, written(tmp_path, frame), "price").sha256 != found.sha256


@pytest.mark.parametrize(("mark", "named"), [(",", "comma"), (";", "semicolon"), ("\t", "tab"), ("|", "bar")])
def test_separators_are_found_unless_they_stand_inside_words(mark: str, named: str, tmp_path: Path) -> None:
    frame = houses().assign(town="a, b; c")
    found = load_csv(None, written(tmp_path, frame, sep=mark), "price")
    assert found.X["town"].tolist() == ["a, b; c"] * N
    assert load_csv(None, str(tmp_path / "my.csv"), "price", sep=named).sha256 == found.sha256
    assert find_separator('a;b\n"1,2,3";4\n"5,6";7\n', Path("x")) == ";"
    assert find_separator("a,b,c\n1;2,3,4\n", Path("x")) == ","


def test_missing_values_of_every_kind_reach_the_pipelines_as_missing(tmp_path: Path) -> None:
    frame = houses(200).astype({"garden": object, "town": object})
    frame.loc[::7, "area"], frame.loc[::9, "town"], frame.loc[::11, "garden"] = np.nan, None, None
    frame.loc[::13, "sold"] = ""
    frame.loc[[1, 5], "price"] = np.nan
    found = load_csv(None, written(tmp_path, frame, na_rep="?"), "price")
    kept = frame.dropna(subset="price")
    np.testing.assert_array_equal(found.y, kept["price"])
    assert found.note.startswith("2 rows without price left out; ")
    for name in ("area", "town", "garden"):
        assert found.X[name].isna().tolist() == kept[name].isna().tolist()
    assert found.X["sold (day)"].isna().sum() == (kept["sold"] == "").sum()
    assert np.isnan(prepare(found, "clean", cache=False).X_train).any()


@pytest.mark.parametrize(("values", "task", "kind"), [
    ([0.5, 1.5, 2.25] * 20, "auto", "regression"),
    (list(range(10)) * 6, "auto", "multiclass"),
    (list(range(12)) * 5, "auto", "regression"),
    ([0.5, 1.5] * 30, "auto", "binary"),
    (["low", "high", "mid"] * 20, "auto", "multiclass"),
    ([True, False] * 30, "auto", "binary"),
    (list(range(10)) * 6, "regression", "regression"),
    (list(range(12)) * 5, "classification", "multiclass"),
])  # fmt: skip
def test_the_task_follows_the_stated_rule_and_can_be_set(values: list, task: str, kind: str, tmp_path: Path) -> None:
    found = load_csv(None, written(tmp_path, houses().assign(price=values)), "price", task)
    assert found.task == kind
    if kind == "regression":
        np.testing.assert_array_equal(found.y, values)
    else:
        assert [found.classes[code] for code in found.y] == [str(v) for v in values]
    assert infer_task(pd.Series([1.0, 2.0, 3.0])) == "classification"
    assert infer_task(pd.Series([1.0, 2.5, 3.0])) == "regression"


def test_row_numbers_are_left_out_unless_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    ids = {"nr": rng.permutation(N) + 100, "customer_id": 10 * np.arange(N) ** 2, "id": [f"x{i}" for i in range(N)]}
    path = written(tmp_path, houses().assign(**ids))
    found = load_csv(None, path, "price")
    assert not set(ids) & set(found.X)
    assert "nr left out: it numbers the rows" in found.note
    assert all(
        f"{name} left out: an id by its name, it has another value" in found.note for name in ("customer_id", "id")
    )
    kept = load_csv(None, path, "price", keep=["nr"], drop="customer_id")
    assert "nr" in kept.X and "id" not in kept.X and "customer_id" not in kept.note
    with pytest.raises(BadInput, match=r"dataset.drop must be a list of columns, \[a,b\], got {'id': 1}"):
        column_names("drop", {"id": 1})
    assert not row_number(pd.Series([1, 2, 3, 3], name="id"))
    assert not row_number(pd.Series([10, 12, 14], name="size"))
    assert not row_number(pd.Series([0.5, 1.5, 2.5], name="id"))


def test_row_numbers_are_those_of_the_file_with_rows_that_have_no_target(tmp_path: Path) -> None:
    frame = houses().assign(nr=np.arange(N))
    frame.loc[20, "price"] = np.nan
    found = load_csv(None, written(tmp_path, frame), "price")
    assert "nr" not in found.X and "nr left out: it numbers the rows" in found.note.split("; ")


def test_blanks_around_fields_are_no_part_of_them(tmp_path: Path) -> None:
    rows = [
        f"{i / 7:.3f} , {'NA ' if i % 5 == 0 else i} ,  a , b{' ' * (i % 2)},{['yes', 'no '][i % 2]}" for i in range(N)
    ]
    (tmp_path / "my.csv").write_text("\n".join(["x , n , word, other , y", *rows, ""]))
    found = load_csv(None, str(tmp_path / "my.csv"), "y")
    assert found.classes == ("no", "yes") and found.note == ""
    assert found.X["n"].isna().sum() == N / 5 and found.X["n"].max() == N - 1
    assert set(found.X["word"]) == {"a"} and set(found.X["other"]) == {"b"}


def test_dates_in_several_forms() -> None:
    assert columns(t=["1/31/2020 0:00", "2/1/2020 13:30"])[0]["t (hour)"].tolist() == [0.0, 13.0]
    assert columns(t=["31/1/2020 10:00:01", "1/2/2020 13:30:00"])[0]["t (month)"].tolist() == [1.0, 2.0]
    assert "month first" in columns(t=["01/02/2020 10:00", "03/04/2021 11:00"])[1][0]
    assert columns(t=["31.12.2020", "01.02.2021"])[0]["t (month)"].tolist() == [12.0, 2.0]
    assert columns(t=["13/02/2020", "01/03/2021"])[0]["t (month)"].tolist() == [2.0, 3.0]
    found, (note,) = columns(t=["01/02/2020", "03/04/2021"])
    assert found["t (month)"].tolist() == [1.0, 3.0] and "month first" in note
    found, _ = columns(t=["2020-01-01T06:00", "2020-01-02T18:00"])
    assert found["t (hour)"].tolist() == [6.0, 18.0] and found["t (day)"].tolist() == [18262.25, 18263.75]
    for other in (["2020-01-01", "soon"], ["A1", "B2"], ["", ""], ["1.2", "3"]):
        assert date_forms(pd.Series(other)) == []


@pytest.mark.parametrize(("there", "here", "days"), [
    (["31/01/2023", "01/02/2023"], "03/04/2024", "2024-04-03"),
    (["01/31/2023", "02/01/2023"], "03/04/2024", "2024-03-04"),
    (["2023-01-31 05:00", "2023-02-01 06:00"], "2024-04-03", "2024-04-03"),
])  # fmt: skip
def test_new_rows_are_read_with_the_dates_as_they_were_written(there: list, here: str, days: str, tmp_path: Path):
    data = as_data(columns(t=there, x=[1.0, 3.0])[0])
    found = load_rows(written(tmp_path, pd.DataFrame({"t": [here, None], "x": [1, 2]})), data)
    assert list(found) == list(data.X)
    at = pd.Timestamp(days)
    assert found.iloc[0, :3].tolist() == [(at - pd.Timestamp(0)).days, at.month, at.day_of_week]
    assert "t (hour)" not in found or found["t (hour)"][0] == 0.0
    assert found.iloc[1, :3].isna().all()
    for wrong in ("25.12.2024", "soon", 5):
        path = written(tmp_path, pd.DataFrame({"t": [here, wrong], "x": [1, 2]}))
        with pytest.raises(BadInput, match=rf"my.csv: t must be dates written .*, as in the file of .* got '{wrong}'"):
            load_rows(path, data)


def test_what_was_text_is_text_in_rows_to_come(tmp_path: Path) -> None:
    """Of codes such as 01067 and 2A, of 1.50 and n/k, of true, false and unknown, some rows alone look like numbers."""
    frame = pd.DataFrame({
        "code": ["01067", "01069", "2A", "2B"] * 8, "size": ["1.50", "2.50", "n/k", "2.00"] * 8,
        "answer": ["true", "false", "unknown", "true"] * 8, "sold": ["20210131", "2021-02-01"] * 16,
        "x": np.arange(32) ** 2, "y": np.arange(32) / 3, "empty": np.nan,
    })  # fmt: skip
    data = load_csv(None, written(tmp_path, frame), "y")
    few = frame.iloc[:2].drop(columns=["y", "empty"])  # a column without any value there may be absent here
    new = load_rows(written(tmp_path, few, "new.csv"), data)
    for name in ("code", "size", "answer"):
        assert new[name].tolist() == frame[name][:2].tolist()
    whole = load_rows(written(tmp_path, frame.drop(columns="y"), "new.csv"), data)
    pd.testing.assert_frame_equal(new, whole.iloc[:2])
    blank = load_rows(written(tmp_path, few.assign(code=None), "blank.csv"), data)
    assert blank["code"].tolist() == [None, None]
    for wrong, message in ((few.drop(columns="x"), "has no column 'x'"), (few.assign(x="a"), "x is not numeric")):
        with pytest.raises(BadInput, match=message):
            load_rows(written(tmp_path, wrong, "wrong.csv"), data)


def test_rows_to_come_of_one_column_of_none_and_of_other_answers(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": np.arange(30) / 7, "y": np.arange(30) / 3})
    data = load_csv(None, written(tmp_path, frame), "y")
    one = load_rows(written(tmp_path, frame[["x"]], "new.csv"), data)
    assert one["x"].tolist() == frame["x"].tolist()
    (tmp_path / "gap.csv").write_text("x\n1.5\n\n3\n\n\n")
    np.testing.assert_array_equal(load_rows(str(tmp_path / "gap.csv"), data)["x"], [1.5, np.nan, 3.0])
    answers = frame.assign(paid=[True, False] * 15, asked=[True, None] * 15)
    data = load_csv(None, written(tmp_path, answers), "y")
    new = load_rows(written(tmp_path, answers.drop(columns="y"), "new.csv"), data)
    pd.testing.assert_frame_equal(new, data.X)
    for name in ("paid", "asked"):
        for other in ("yes", 1):
            path = written(tmp_path, answers.drop(columns="y").assign(**{name: other}), "other.csv")
            with pytest.raises(
                BadInput, match=f"{name} must be True or False, as in the file of the runs, got '{other}'"
            ):
                load_rows(path, data)
    empty = load_csv(None, written(tmp_path, frame.assign(note=np.nan)), "y")
    late = load_rows(written(tmp_path, frame[["x"]].assign(note="late"), "late.csv"), empty)
    assert late["note"].isna().all() and late["x"].tolist() == frame["x"].tolist()
    with pytest.raises(BadInput, match=r"none\.csv has no rows"):
        load_rows(written(tmp_path, answers.iloc[:0], "none.csv"), data)


def test_what_stands_for_no_target_is_said(tmp_path: Path) -> None:
    path = written(tmp_path, pd.DataFrame({"x": np.arange(40) / 7, "y": ["None", "mild", "bad", "mild"] * 10}))
    data = load_csv(None, path, "y")
    assert data.classes == ("bad", "mild")
    assert "10 rows without y left out, written 'None': a class of that name has to be renamed" in data.note
    with pytest.raises(
        BadInput, match=r"'y' is always mild.* \(10 rows without y left out, written 'None': a class of"
    ):
        load_csv(
            None, written(tmp_path, pd.DataFrame({"x": np.arange(40) / 7, "y": ["None", *["mild"] * 3] * 10})), "y"
        )
    gaps = written(tmp_path, pd.DataFrame({"x": np.arange(40) / 7, "y": [None, "mild", "bad", "mild"] * 10}))
    assert "10 rows without y left out" in load_csv(None, gaps, "y").note.split("; ")


def test_a_folder_of_the_users_may_be_written_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    written(tmp_path, houses())
    data = load_csv(None, "~/my.csv", "price")
    assert (data.name, len(load_rows("~/my.csv", data))) == ("my.csv", N)


@pytest.mark.parametrize(("n", "text"), [(500, ""), (3, "a b " * 40_000)])
def test_wide_files_and_long_fields_are_read(n: int, text: str, tmp_path: Path) -> None:
    names = [f"c{i:0300d}" for i in range(n)]  # a header of 150,000 characters
    frame = pd.DataFrame(np.arange(30 * n).reshape(30, n) % 97 / 7, columns=names)
    if text:
        frame[names[1]] = [text, *["c d e"] * 29]
    found = load_csv(None, written(tmp_path, frame), names[0], "regression")
    assert found.X.shape == (30, n - 1)


@pytest.mark.parametrize("first", [",,\n", " , ,\n\n", '"","",\n'])
def test_an_empty_first_row_is_no_header(first: str, tmp_path: Path) -> None:
    (tmp_path / "my.csv").write_text(f"{first}a,b,y\n" + "".join(f"{i},{i % 7},{i / 3}\n" for i in range(1, 60, 2)))
    found = load_csv(None, str(tmp_path / "my.csv"), "y")
    assert found.task == "regression" and found.X["a"].tolist() == list(range(1, 60, 2))


def test_a_decimal_comma_is_a_setting(tmp_path: Path) -> None:
    frame = houses()
    path = written(tmp_path, frame, sep=";", decimal=",")
    np.testing.assert_array_equal(load_csv(None, path, "price", decimal=",").X["area"], frame["area"])
    assert load_csv(None, path, "price", decimal="comma", sep="semicolon").X["area"].tolist() == frame["area"].tolist()
    with pytest.raises(BadInput, match=r"'price' holds numbers with a comma, such as '\d+,\d+': dataset.dec"):
        load_csv(None, path, "price")
    with pytest.raises(BadInput, match=r"'area' holds numbers with a comma, .* dataset.keep=\[area\] takes"):
        load_csv(None, path, "rooms")
    kept = load_csv(None, path, "rooms", drop=["price"], keep=["area"]).X["area"]
    assert set(kept) == set(frame["area"].astype(str).str.replace(".", ","))
    path = written(tmp_path, houses().assign(price=["10,5", "11", "12,25"] * 20))
    with pytest.raises(BadInput, match=r"such as '10,5': .*, dataset.task=classification takes them as text"):
        load_csv(None, path, "price")
    assert load_csv(None, path, "price", "classification").classes == ("10,5", "11", "12,25")


@pytest.mark.parametrize(("form", "note"), [
    ("unknown", r"area read as text: 'unknown' is no number (as 59 others are)"),
    ("{}%", r"area read as text: numbers are to be written without marks and units, not "),
    ("$1,{:06.2f}", r"area read as text: numbers are to be written without marks and units"),
    ("{:g} EUR", r"area read as text: numbers are to be written without marks and units"),
])  # fmt: skip
def test_text_that_was_meant_as_numbers_is_noted_and_refused_as_target(form: str, note: str, tmp_path: Path) -> None:
    frame = houses()
    values = [form if form == "unknown" and not k else (form if "{" in form else "{}").format(v)
              for k, v in enumerate(frame["area"])]  # fmt: skip
    path = written(tmp_path, frame.assign(area=values))
    assert note in load_csv(None, path, "price").note
    with pytest.raises(BadInput, match=r"^target area .*; dataset.task=classification takes them as classes$"):
        load_csv(None, path, "area")


def test_other_encodings(tmp_path: Path) -> None:
    path = written(tmp_path, houses(), encoding="latin-1")
    with pytest.raises(BadInput, match=r"my.csv is not utf-8 \(byte 0xf6 at place \d+\): set dataset.encoding="):
        load_csv(None, path, "price")
    assert "Köln" in set(load_csv(None, path, "price", encoding="latin-1").X["town"])
    named = houses().assign(**{"[a] <b>": np.arange(N) % 9, "": np.arange(N) % 7})
    found = load_csv(None, written(tmp_path, named, encoding="utf-8-sig"), "price").X
    assert {"area", "[a] <b>", "column_8"} <= set(found)


def test_lines_end_where_files_have_line_ends_and_nowhere_else(tmp_path: Path) -> None:
    """In latin-1 the three dots of cp1252 are U+0085, for Unicode a line end."""
    path = tmp_path / "my.csv"
    lines = [f"{k * 7 % 5},{k * 1.5}" for k in range(30)]
    path.write_bytes("\r\n".join(["note\u2026,y", *lines]).encode("cp1252"))
    assert load_csv(None, str(path), "y", encoding="latin-1").X.columns.tolist() == ["note"]
    path.write_text("\n".join(["a\u2028b,y", *lines]))
    assert load_csv(None, str(path), "y").X.columns.tolist() == ["a\u2028b"]


WRONG = [
    ("", {}, r"my.csv is empty"),
    (",,\n;\n", {}, r"my.csv is empty"),
    ("a,b\n", {}, r"0 rows with a value in 'b'; 20 or more are needed"),
    ("a,b\n1,2\n3,4\n", {}, r"2 rows with a value in 'b'; 20 or more are needed"),
    ("a\n1\n2\n", {"target": "a"}, r"has one column only, parted by none of comma, semicolon, tab, bar"),
    ("a,b\n" * 30, {"target": "c"}, r"has no column 'c'; its columns: a, b"),
    ("a,b,a\n" + "1,2,3\n" * 30, {}, r"the column name 'a' occurs 2 times; names must differ"),
    ("a,b\n" + "1,2\n" * 29 + "1,2,3\n", {}, r"is no table separated by comma: Expected 2 fields in line 31, saw 3"),
    ("a,b\n" + "1,2\n" * 30, {}, r"'b' is always 2: there is nothing to predict"),
    ("id,b\n" + "".join(f"{i},{i / 3}\n" for i in range(30)), {}, r"no column is left to predict from: id left out"),
    ("a,b\n" + "".join(f"{i},w{i}\n" for i in range(30)), {}, r"'b' has 30 different values, such as 'w0': too many"),
    ("a,b\n" + "".join(f"{i},w{i % 3}\n" for i in range(30)), {"task": "regression"}, r"is not numeric, for example"),
    ("a,b\n" + "".join(f"{i},{i / 7}\n" for i in range(30)) + "31,inf\n", {}, r"'b' holds infinite values"),
    ("a,b\n" + "".join(f"{i},{i % 2}\n" for i in range(30)) + "31,inf\n", {}, r"'b' holds infinite values"),
    ("a,b\n" + "".join(f"{i},{i}e38\n" for i in range(30)), {}, r"'b' goes to 2.9e\+39, beyond the numbers"),
    ("a,b\n" + "1,2\n1,3\n" * 30, {"task": "ranking"}, r"task must be one of auto, regression, classification, got"),
    ("a,b\n" + "1,2\n1,3\n" * 30, {"sep": "::"}, r"dataset.sep must be auto, one of comma, semicolon, tab, bar, or"),
    ("a,b\n" + "1,2\n1,3\n" * 30, {"sep": ";"}, r"one column only with this separator"),
    ("a,b\n" + "1,2\n1,3\n" * 30, {"decimal": "x"}, r"dataset.decimal must be point or comma, got 'x'"),
    ("a,b\n" + "1,2\n1,3\n" * 30, {"decimal": ","}, r"separator and dataset.decimal are both a comma: leave"),
    ("t,t (day),b\n" + "".join(f"2024-01-0{i % 9 + 1},{i / 7},{i / 3}\n" for i in range(30)), {}, r"of 't' become"),
    ("a,b\n" + "1,2\n1,3\n" * 30, {"drop": "id"}, r"dataset.drop: 'id' is none of the inputs"),
    ("a,b\n" + "1,2\n1,3\n" * 30, {"drop": "a", "keep": ["a"]}, r"dataset.drop and dataset.keep both name 'a'"),
    ("a,b\n" + "1,2\n1,3\n" * 30, {"encoding": "klingon"}, r"dataset.encoding=klingon is no encoding"),
    ("Sales\na,b\n" + "1,2\n1,3\n" * 30, {}, r"first line is no header .* comma parts: remove it \('Sales'\)"),
    ("a,b\n" + "1,2\n1,3\n" * 30, {"drop": ["a"]}, r"no column is left to predict from"),
    ("a,b\n" + "1,2\n1,3\n" * 30, {"name": "wine"}, r"dataset.name=wine is one of the study's data sets"),
    ("a,b\n" + "1,2\n1,3\n" * 30, {"name": "../x"}, r"must be a plain name without slashes"),
    ("a,b\n" + "1,2\n1,3\n" * 30, {"path": "nowhere.csv"}, r"cannot read nowhere.csv: No such file"),
    ("a,b\n" + "1,2\n1,3\n" * 30, {"path": "."}, r"dataset.path: cannot read \.: Is a directory"),
    ("a,b\n" + "1,2\n1,3\n" * 30, {"target": None}, r"dataset.target is not set: dataset.path=my.csv dataset.target="),
    ("a,b\n\0\0", {}, r"is not plain text"),
    ("", {"path": "my.parquet"}, r"is no plain text \(.parquet\): convert or unpack it to CSV first"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "settings", "message"), WRONG)
def test_what_cannot_be_tuned_on_is_refused_in_one_line(
    text: str, settings: dict, message: str, tmp_path: Path
) -> None:
    (tmp_path / "my.csv").write_text(text)
    given = {"path": str(tmp_path / "my.csv"), "target": "b", **settings}
    with pytest.raises(BadInput, match=message) as caught:
        load_csv(**given)
    assert len(str(caught.value).splitlines()) == 1


def test_labels_that_look_like_numbers_but_are_none() -> None:
    """Circled digits are digits to Python, but no numbers; 1 and 01 are two labels, always in one order."""
    assert encode_target(pd.Series(["②", "①", "②"]), "binary")[1] == ("①", "②")
    assert encode_target(pd.Series(["1", "01", "+1", "-2"]), "multiclass")[1] == ("-2", "+1", "01", "1")
    assert encode_target(pd.Series(["10", "9"]), "binary")[1] == ("9", "10")
