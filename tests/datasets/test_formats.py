"""Readers of raw files; tests/chaos/hostile.py has those that they refuse."""

import gzip

import numpy as np
import pandas
import pytest
from sklearn.datasets import dump_svmlight_file

from datasets.errors import BadInput
from datasets.formats import as_categories, read_arff, read_csv, read_libsvm


def test_csv_takes_only_empty_fields_for_missing_and_reads_files_one_below_the_other(tmp_path):
    (tmp_path / "a.csv").write_text('word,value\nNA,1\n"null",\n')
    (tmp_path / "b.csv").write_text("word,value\nnan,3\n")
    frame = read_csv(tmp_path / "a.csv", tmp_path / "b.csv", nominal=["value"])
    assert list(frame["word"]) == ["NA", "null", "nan"]
    assert frame["value"].isna().tolist() == [False, True, False]
    assert frame.index.tolist() == [0, 1, 2] and list(frame["value"].cat.categories) == [1, 3]


def test_csv_parses_to_the_nearest_double_whatever_the_compression_and_separator(tmp_path):
    texts = ["0.1", "1e-320", "8.41e-05", "123456789.123456789", "2.2250738585072011e-308"]
    expected = [float(text) for text in texts]
    for sep, written in ((",", ","), ("\t", "\t"), (" ", "   ")):
        path = tmp_path / "t.csv.gz"
        path.write_bytes(gzip.compress(f"{written.join(texts)}\n{written.join(texts)}\n".encode()))
        frame = read_csv(path, names=list("abcde"), sep=sep)
        assert frame.shape == (2, 5)
        assert frame.iloc[1].tolist() == expected


def test_blanks_are_stripped_and_quotes_taken_for_text_only_when_asked(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a, NO\nb,  YES\n")
    assert read_csv(path, names=["k", "v"])["v"].tolist() == ["NO", "YES"]
    assert read_csv(path, names=["k", "v"], strip=False)["v"].tolist() == [" NO", "  YES"]
    path.write_text('ham\t"open quote\nspam\tclosed"\n')
    assert read_csv(path, names=["k", "v"], sep="\t", quoted=False)["v"].tolist() == ['"open quote', 'closed"']


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n1,2,3,4\n1\xff,2\n", b"1,2,3\n4,5,6\n"])
def test_csv_that_is_no_table_or_too_wide_is_refused_by_name(tmp_path, content):
    path = tmp_path / "broken.csv"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"broken.csv is not the table it should be"):
        read_csv(path, names=["a", "b"] if content[:1].isdigit() else None)


ARFF = """% comment
@RELATION r

@attribute 'two words' REAL
% another
@attribute n integer
@attribute kind {b, 'a', "c"}
@DATA

% one more
1.5, ?, a,
-2e3,4,'b'
"""


def test_arff_comments_quotes_missing_values_and_the_comma_too_many(tmp_path):
    path = tmp_path / "t.arff"
    path.write_bytes(ARFF.replace("\n", "\r\n").encode())
    frame = read_arff(path)
    assert list(frame.columns) == ["two words", "n", "kind"]
    assert frame["two words"].tolist() == [1.5, -2000.0]
    assert np.isnan(frame["n"][0])
    assert frame["n"][1] == 4.0
    assert list(frame["kind"]) == ["a", "b"]
    assert list(frame["kind"].cat.categories) == ["b", "a", "c"]


def test_libsvm_agrees_with_sklearns_writer_and_keeps_empty_rows(tmp_path):
    rng = np.random.default_rng(3)
    X = np.where(rng.random((30, 7)) < 0.3, rng.standard_normal((30, 7)), 0.0)
    X[4] = 0.0
    X[:, 6] = 0.0  # the highest index never occurs
    y = rng.choice([-1, 1], 30)
    path = tmp_path / "t"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    frame = read_libsvm(path, columns=7)
    np.testing.assert_allclose(frame.drop(columns="label").to_numpy(), X, rtol=1e-15)
    assert frame["label"].tolist() == y.tolist()
    assert len(read_libsvm(path, columns=7, limit=5)) == 5


@pytest.mark.parametrize("field", ["0:1", "8:1", "1", "a:1"])
def test_a_broken_libsvm_field_is_refused(tmp_path, field):
    path = tmp_path / "t"
    path.write_text(f"+1 2:1\n-1 {field}\n")
    with pytest.raises(BadInput, match=r"/t is not the LIBSVM file of 7 columns it should be: "):
        read_libsvm(path, columns=7)


def test_levels_of_categories_are_sorted_and_the_frame_given_stays_as_it_was():
    frame = pandas.DataFrame({"code": [10, 9, 10], "text": ["b", "a", "b"], "x": [1, 2, 3]})
    made = as_categories(frame, ["code", "text"])
    assert list(made["code"].cat.categories) == [9, 10]
    assert list(made["text"].cat.categories) == ["a", "b"]
    assert made["x"].dtype == frame["code"].dtype == np.int64


def test_libsvm_labels_that_are_no_whole_numbers_stay(tmp_path):
    path = tmp_path / "real.txt"
    path.write_text("21.6 1:1\n-3.7 2:4\n")
    assert read_libsvm(path, 2)["label"].tolist() == [21.6, -3.7]
    path.write_text("21 1:1\n-3 2:4\n")
    assert read_libsvm(path, 2)["label"].dtype == np.int64
