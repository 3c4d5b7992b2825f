"""Adult a3a (LIBSVM): income above 50,000 USD or not, from 123 binary features."""

from functools import partial

from datasets.catalogue import Entry, File, Source
from datasets.origins import Libsvm
from datasets.parsers import libsvm_table

ENTRY = Entry(
    name="a3a",
    title="Adult a3a",
    task="binary",
    target="label",
    columns=123,
    classes=2,
    licence="none stated (LIBSVM; from UCI Adult)",
    use="figures",
    kin=("a1a",),
    sources=(
        Source(
            files=(File("libsvm_a3a/a3a.txt", "2d513572f103d25e84bebe4b9f2f52ee9445764b5a393caff7db9c482cfc1ee4"),),
            parse=partial(libsvm_table, columns=123),
            rows=3185,
            sha256="4f4f1180f071fa4217b523677f11b2cb9c775f2ed2582986d0c3f8019b0489bc",
            origin=Libsvm("binary/a3a"),
            note="the training file only; it holds every row of a1a",
        ),
    ),
)
