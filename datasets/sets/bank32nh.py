"""Bank32nh (OpenML 558): the share of customers turned away, in a simulation of banks."""

from datasets.catalogue import Entry, File, Source
from datasets.copies import openml_copy
from datasets.origins import OpenML
from datasets.parsers import arff_table

ENTRY = Entry(
    name="bank32nh",
    title="Bank32nh",
    task="regression",
    target="rej",
    columns=32,
    classes=0,
    licence="none stated (DELVE)",
    sources=(
        Source(
            files=(
                File(
                    "openml_558_bank32nh/bank32nh.arff",
                    "981ee722b3d562d454ecaba52b0eb2fa5b145f43b8dd986dcc9beefe70f988e0",
                ),
            ),
            parse=arff_table,
            rows=8192,
            sha256="c2fadec45965e7e68e59ee8abb8ad72513d1a3ad38d0968ed57e6748d668554a",
        ),
        openml_copy("openml_558_bank32nh", OpenML(558, rows=8192, columns=33, target="rej")),
    ),
)
