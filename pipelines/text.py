"""Text columns: a vocabulary that depends on the training rows alone, and tf-idf weights over it."""

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from datasets.errors import BadInput

MIN_ROWS = 10  # a term in fewer training rows is rare: the floor that rare levels have, too
MAX_TERMS = 1000


class NoTerms(BadInput):
    """Text columns share no term that pipelines could learn from."""


class Terms(TransformerMixin, BaseEstimator):
    """tf-idf of the words, or of the character n-grams, of all text columns together.

    Weight of term t in row i: tf(t, i) (1 + log((1 + n) / (1 + df(t)))), rows scaled to unit length.
    characters: n-grams of 1 to 3 characters within words instead of words.
    presence: tf is 1 or 0, rows are not scaled: each column is an indicator times a constant.
    min_rows, max_terms: the vocabulary is the at most `max_terms` terms found in most rows, `min_rows`
    or more; equals go in alphabetical order (scikit-learn's own `max_features` leaves that to a sort
    whose order of equals is not defined). Missing text is empty. Raises NoTerms if no term remains.
    """

    def __init__(
        self,
        characters: bool = False,
        presence: bool = False,
        min_rows: int = MIN_ROWS,
        max_terms: int = MAX_TERMS,
    ) -> None:
        self.characters = characters
        self.presence = presence
        self.min_rows = min_rows
        self.max_terms = max_terms

    def fit(self, X: pd.DataFrame, y: np.ndarray | None = None) -> "Terms":
        """Fit vocabulary and document frequencies on the training rows."""
        texts = _joined(X)
        split = {"analyzer": "char_wb", "ngram_range": (1, 3)} if self.characters else {"analyzer": "word"}
        counter = CountVectorizer(binary=True, **split)
        try:
            rows = np.asarray(counter.fit_transform(texts).sum(axis=0)).ravel()
        except ValueError as error:  # an empty vocabulary
            raise NoTerms(f"text columns: {error}") from None
        found = zip(counter.get_feature_names_out(), rows, strict=True)
        frequent = sorted((-count, term) for term, count in found if count >= self.min_rows)
        if not frequent:
            raise NoTerms(f"text columns: no term occurs in {self.min_rows} of the {len(texts)} training rows")
        self.tfidf_ = TfidfVectorizer(
            vocabulary=sorted(term for _, term in frequent[: self.max_terms]),
            binary=self.presence,
            norm=None if self.presence else "l2",
            **split,
        ).fit(texts)
        return self

    def transform(self, X: pd.DataFrame) -> sparse.csr_matrix:
        """Weigh the terms of any rows."""
        return self.tfidf_.transform(_joined(X))


def _joined(X: pd.DataFrame) -> list[str]:
    """Return one text per row: its non-missing texts, one per line."""
    return ["\n".join(v for v in row if v is not None) for row in X.to_numpy(dtype=object)]
