"""Kin8nm (OpenML 189): how far the end of an eight-link robot arm is from a target."""

from datasets.catalogue import Entry, File, Source
from datasets.copies import openml_copy
from datasets.origins import OpenML
from datasets.parsers import arff_table

ENTRY = Entry(
    name="kin8nm",
    title="Kin8nm",
    task="regression",
    target="y",
    columns=8,
    classes=0,
    licence="none stated (DELVE)",
    sources=(
        Source(
            files=(
                File(
                    "openml_189_kin8nm/kin8nm.arff",
                    "64a4d839e3ce2fd57f57a21d612392170a57f9612fdd56a8fc35b4e7a5d59881",
                ),
            ),
            parse=arff_table,
            rows=8192,
            sha256="89679b123fc811f44f15712c13bd2ca99a3df1ce562ab50d8b332ee35f6c1f8d",
        ),
        openml_copy("openml_189_kin8nm", OpenML(189, rows=8192, columns=9, target="y")),
    ),
)
