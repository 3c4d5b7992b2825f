"""Web pages w1a (LIBSVM): whether a page belongs to a category, from 300 binary keyword features."""

from functools import partial

from datasets.catalogue import Entry, File, Source
from datasets.origins import Libsvm
from datasets.parsers import libsvm_table

ENTRY = Entry(
    name="w1a",
    title="Web pages w1a",
    task="binary",
    target="label",
    columns=300,
    classes=2,
    licence="none stated (LIBSVM; from J. Platt's web-page data)",
    use="opportunity",
    sources=(
        Source(
            files=(
                File(
                    "libsvm_w1a/w1a.txt",
                    "4429b80934e3ab86ea346cf84df35524575924c8ae88ce874a4303ec34d6d7e5",
                    twin="0ae2b1c40f6a99061d1c6f4a1f3b50eea58a2f3b8bf851a337c25c2a65a49d32",
                ),
            ),
            parse=partial(libsvm_table, columns=300),
            rows=2477,
            sha256="47b5878b8137f0309876df9f5e313421348fdd9705059762d45991975aef9b9f",
            origin=Libsvm("binary/w1a"),
        ),
    ),
)
