"""The data sets from the LIBSVM data page: a1a, a3a, splice, w1a. None is a problem of the main study."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.catalogue import Entry, File, Source
from datasets.download import Libsvm
from datasets.formats import as_categories, read_libsvm

if TYPE_CHECKING:
    import pandas

# Adult a1a and a3a (LIBSVM): income above 50,000 USD or not, from 123 binary features.
A1A = Entry("a1a", "Adult a1a", target="label", columns=123, classes=2, licence="none stated (LIBSVM; from UCI Adult)",
    use="figures", sources=[Source(
    "libsvm_a1a", [File("a1a", "eb54c45f1bdb51286f803dd092eb8202b44637a858fc6c4e533a2d64a0d94b4e")],
    partial(read_libsvm, columns=123), rows=1605, origin=Libsvm("binary/a1a"),
    sha256="7afe6b2b1fd6e4f45d03955a97ed6981317573a362d9a647bedbc088f34bb3cf", note="the training file only",
)])  # fmt: skip

A3A = Entry("a3a", "Adult a3a", target="label", columns=123, classes=2, licence="none stated (LIBSVM; from UCI Adult)",
    use="figures", kin=["a1a"], sources=[Source(
    "libsvm_a3a", [File("a3a.txt", "2d513572f103d25e84bebe4b9f2f52ee9445764b5a393caff7db9c482cfc1ee4")],
    partial(read_libsvm, columns=123), rows=3185, origin=Libsvm("binary/a3a"),
    sha256="4f4f1180f071fa4217b523677f11b2cb9c775f2ed2582986d0c3f8019b0489bc",
    note="the training file only; it holds every row of a1a",
)])  # fmt: skip

# Splice (LIBSVM): a splice junction of DNA or none, from 60 nucleotides.
_SPLICE_ROWS = 1000
_SPLICE_NOTE = "the 1000 training rows; nucleotides are codes (1 A, 2 G, 3 C, 4 T) and taken as nominal"


def read_splice(path: Path) -> "pandas.DataFrame":
    """Read the first 1000 rows (a copy that goes on has the test rows after them)."""
    frame = read_libsvm(path, columns=60, limit=_SPLICE_ROWS)
    inputs = frame.columns.drop("label")
    return as_categories(frame.astype(dict.fromkeys(inputs, "int64")), inputs)


SPLICE = Entry("splice", "Splice", target="label", columns=60, classes=2,
    licence="none stated (LIBSVM; from Delve and UCI)", use="figures", sources=[Source(
    "libsvm_splice", [File("splice.txt", "4ac8c916aa0feb37f1a904db9c32e82e42b7fc7821bf7f1281f2702c5f8653c1")],
    read_splice, rows=_SPLICE_ROWS, sha256="1e6cfedbb3481389b8c5b1219e302935a0e2751a075672f2fc978e625bdd9289",
    note=_SPLICE_NOTE,
), Source(
    "libsvm_splice", [File("splice", "5eee48697657a500cf014322130fafc46706beb8d8ae6837cdbee6672b213897")],
    read_splice, rows=_SPLICE_ROWS, origin=Libsvm("binary/splice"),
    sha256="1e6cfedbb3481389b8c5b1219e302935a0e2751a075672f2fc978e625bdd9289", note=_SPLICE_NOTE,
)])  # fmt: skip

# Web pages w1a (LIBSVM): whether a page belongs to a category, from 300 binary keyword features.
W1A = Entry("w1a", "Web pages w1a", target="label", columns=300, classes=2,
    licence="none stated (LIBSVM; from J. Platt's web-page data)", use="opportunity", sources=[Source(
    "libsvm_w1a", [
        File("w1a.txt", "4429b80934e3ab86ea346cf84df35524575924c8ae88ce874a4303ec34d6d7e5",
             twin="0ae2b1c40f6a99061d1c6f4a1f3b50eea58a2f3b8bf851a337c25c2a65a49d32")],
    partial(read_libsvm, columns=300), rows=2477, origin=Libsvm("binary/w1a"),
    sha256="47b5878b8137f0309876df9f5e313421348fdd9705059762d45991975aef9b9f",
)])  # fmt: skip
