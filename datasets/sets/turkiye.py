"""Turkiye Student Evaluation (UCI 262): how difficult students found a course, from their answers."""

from datasets.catalogue import Entry, File, Source
from datasets.origins import Uci
from datasets.parsers import csv_table

ENTRY = Entry(
    name="turkiye",
    title="Turkiye Student Evaluation",
    task="multiclass",
    target="difficulty",
    columns=32,
    classes=5,
    licence="CC BY 4.0 (UCI)",
    sources=(
        Source(
            files=(
                File(
                    "turkiye_student_evaluation/turkiye-student-evaluation_generic.csv",
                    "e5c4bf0f98af39adbc0bd23ddbc7ab1d5ffbcf028e7540a464ff6d725cb5f2eb",
                ),
            ),
            parse=csv_table,
            rows=5820,
            sha256="7237c3c9185860c66ca2c268fd960739ce8eafd9331b24d97ef0b65edccc3415",
            origin=Uci(262, "turkiye+student+evaluation"),
            note="UCI names no target; difficulty (1 to 5) is our reading",
        ),
    ),
)
