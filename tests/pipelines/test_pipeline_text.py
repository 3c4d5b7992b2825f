from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from datasets.errors import BadInput
from pipelines import build, names
from pipelines.steps import Terms

TEXTS = ["free prize now now", "now or never", "prize free", "call me now", ""]


def frame(*columns: Sequence[str | None]) -> pd.DataFrame:
    return pd.DataFrame({f"t{i}": pd.Series(list(c), dtype=object) for i, c in enumerate(columns)})


def by_hand(texts: list[str], terms: list[str], presence: bool) -> np.ndarray:
    words = [text.split() for text in texts]
    df = np.array([sum(term in row for row in words) for term in terms])
    tf = np.array([[row.count(term) for term in terms] for row in words], dtype=float)
    tf = (tf > 0).astype(float) if presence else tf
    weights = tf * (1 + np.log((1 + len(texts)) / (1 + df)))
    if presence:
        return weights
    length = np.linalg.norm(weights, axis=1, keepdims=True)
    return np.divide(weights, length, out=np.zeros_like(weights), where=length > 0)


@pytest.mark.parametrize("presence", [False, True])
def test_weights_follow_the_formula(presence: bool) -> None:
    terms = Terms(presence=presence, min_rows=2).fit(frame(TEXTS))
    found = terms.transform(frame(TEXTS)).toarray()
    np.testing.assert_allclose(found, by_hand(TEXTS, ["free", "now", "prize"], presence))


def test_the_vocabulary_keeps_the_commonest_terms_equals_alphabetically() -> None:
    terms = Terms(min_rows=1, max_terms=2).fit(frame(TEXTS))
    assert list(terms.tfidf_.get_feature_names_out()) == ["free", "now"]  # now: 3 rows; free and prize: 2


def test_characters_are_n_grams_within_words() -> None:
    terms = Terms(characters=True, min_rows=3).fit(frame(TEXTS))
    found = set(terms.tfidf_.get_feature_names_out())
    assert {"n", "no", "now", " n"} <= found
    assert all(len(term) <= 3 for term in found)


def test_text_columns_count_together_and_missing_text_is_empty() -> None:
    apart = frame(["free", None, "free"], ["prize", "prize", None])
    joined = frame(["free prize", "prize", "free"])
    first, second = (Terms(min_rows=2).fit(f).transform(f).toarray() for f in (apart, joined))
    np.testing.assert_array_equal(first, second)
    gap = Terms(min_rows=2).fit(joined).transform(frame([None]))
    assert gap.nnz == 0


def test_unseen_words_are_ignored() -> None:
    terms = Terms(min_rows=2).fit(frame(TEXTS))
    np.testing.assert_array_equal(
        terms.transform(frame(["zebra now"])).toarray(), terms.transform(frame(["now"])).toarray()
    )


@pytest.mark.parametrize("texts", [["a b c"] * 3, ["one two three", "four five six"]])
def test_text_without_usable_terms_is_refused(texts: list[str]) -> None:
    with pytest.raises(BadInput, match="text columns: "):
        Terms(min_rows=5).fit(frame(texts))


@pytest.mark.parametrize("pipeline", names())
def test_a_column_of_such_text_is_dropped_with_a_note(pipeline: str) -> None:
    """Three words of their own in every row: no pipeline learns from them, and none is stopped by them."""
    n = 200
    owner = [f"w{i} v{i} u{i}" for i in range(n)]
    X = pd.DataFrame({"area": np.arange(n) ** 1.5, "rooms": np.arange(n) % 13, "owner": owner})
    rows = np.arange(120)
    model = build(pipeline).fit(X.iloc[rows], np.arange(120.0))
    plain = build(pipeline).fit(X.drop(columns="owner").iloc[rows], np.arange(120.0))
    notes = [note for _, step in model.steps for note in getattr(step, "dropped_", ())]
    dropped = "owner: no term occurs in 10 of the 120 training rows" in notes
    assert dropped == (pipeline != "pca_small")  # which looks at characters: "w1" and the like are in many rows
    if dropped:
        found, expected = model.transform(X), plain.transform(X.drop(columns="owner"))
        np.testing.assert_array_equal(*(m.toarray() if sparse.issparse(m) else m for m in (found, expected)))
    with pytest.raises(BadInput, match="no term occurs in 10"):
        build("clean").fit(X[["owner"]].iloc[rows], np.arange(120.0))
