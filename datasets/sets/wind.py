"""Wind (OpenML 503): the daily mean wind speed at Malin Head from eleven other Irish stations."""

from datasets.catalogue import Entry, File, Source
from datasets.copies import openml_copy
from datasets.origins import OpenML
from datasets.parsers import arff_table

ENTRY = Entry(
    name="wind",
    title="Wind",
    task="regression",
    target="MAL",
    columns=14,
    classes=0,
    licence="unlimited distribution permitted (StatLib)",
    sources=(
        Source(
            files=(
                File(
                    "openml_503_wind/wind.arff",
                    "33b556d23b14f2a0a17de9332ccedbee2f23415e0446b0c45d6d3bd168320d0c",
                ),
            ),
            parse=arff_table,
            rows=6574,
            sha256="98cae1d4023995932e936a1f4c0a3420ce2d27866ebae9bb43066b85e620c75d",
        ),
        openml_copy("openml_503_wind", OpenML(503, rows=6574, columns=15, target="MAL")),
    ),
)
