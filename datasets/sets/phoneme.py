"""Phoneme (OpenML 1489): nasal or oral vowel, from the amplitudes of five harmonics."""

from datasets.catalogue import Entry, File, Source
from datasets.copies import openml_copy
from datasets.origins import OpenML
from datasets.parsers import arff_table

ENTRY = Entry(
    name="phoneme",
    title="Phoneme",
    task="binary",
    target="Class",
    columns=5,
    classes=2,
    licence="ODC-PDDL (as stated by the repository of the copy)",
    sources=(
        Source(
            files=(
                File(
                    "openml_1489_phoneme/phoneme.arff",
                    "8dcd1c5236cea66cdc4e75cb84fbb4da7a4b1e8b1fe5ad5cd3fd825a1ae4c48b",
                ),
            ),
            parse=arff_table,
            rows=5404,
            sha256="43d30626a61d71cac8f71db924d1b4a13968c18a148bf9b6486683293049565e",
        ),
        openml_copy("openml_1489_phoneme", OpenML(1489, rows=5404, columns=6, target="Class")),
    ),
)
