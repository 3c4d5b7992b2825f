"""Adult a1a (LIBSVM): income above 50,000 USD or not, from 123 binary features."""

from functools import partial

from datasets.catalogue import Entry, File, Source
from datasets.origins import Libsvm
from datasets.parsers import libsvm_table

ENTRY = Entry(
    name="a1a",
    title="Adult a1a",
    task="binary",
    target="label",
    columns=123,
    classes=2,
    licence="none stated (LIBSVM; from UCI Adult)",
    use="figures",
    sources=(
        Source(
            files=(File("libsvm_a1a/a1a", "eb54c45f1bdb51286f803dd092eb8202b44637a858fc6c4e533a2d64a0d94b4e"),),
            parse=partial(libsvm_table, columns=123),
            rows=1605,
            sha256="7afe6b2b1fd6e4f45d03955a97ed6981317573a362d9a647bedbc088f34bb3cf",
            origin=Libsvm("binary/a1a"),
            note="the training file only",
        ),
    ),
)
