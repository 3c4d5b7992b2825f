"""Handwritten letters (Kaggle olgabelitskaya/classification-of-handwritten-letters): 33 Russian letters."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import UInt8

from datasets.catalogue import Entry, File, Source
from datasets.errors import BadInput
from datasets.origins import Kaggle

if TYPE_CHECKING:
    import pandas

SIDE, BLOCK = 32, 4
INPUTS = tuple(f"p{row}{column}" for row in range(SIDE // BLOCK) for column in range(SIDE // BLOCK))
NOTE = "the 5940 images of letters2 (no background), grey, averaged to 8 x 8; the size is our reading"


def parse(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the list of images and the zip file of PNGs it names, wherever in the archive they lie."""
    import zipfile

    import pandas

    from datasets.formats import read_csv

    listed = read_csv(files[0])
    with zipfile.ZipFile(files[1]) as archive:
        members = {Path(member).name: member for member in archive.namelist()}
        missing = [file for file in listed["file"] if file not in members]
        if missing:
            raise BadInput(f"{files[1]} lacks {len(missing)} of the listed images, {missing[0]} for one")
        luma = np.stack([_luma(archive.read(members[file])) for file in listed["file"]])
    blocks = luma.reshape(-1, SIDE // BLOCK, BLOCK, SIDE // BLOCK, BLOCK).mean(axis=(2, 4), dtype=np.float64)
    return pandas.DataFrame(blocks.reshape(len(luma), -1), columns=list(INPUTS)).assign(label=listed["label"])


def _luma(png: bytes) -> UInt8[np.ndarray, "32 32"]:
    """Return one image's luma (Rec. 601: 0.299 R + 0.587 G + 0.114 B, rounded)."""
    import io

    from PIL import Image

    with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
        colour = image.convert("RGB")
    if colour.size != (SIDE, SIDE):  # a few are 31 or 33 wide or high
        colour = colour.resize((SIDE, SIDE), Image.Resampling.NEAREST)
    return np.asarray(colour.convert("L"))


LIST = File("handwritten_letters/letters2.csv", "e5ba9c7659fe93a84d45b17248238effae57d95aa4b8af4b3bf5e142421eee75")
ENTRY = Entry(
    name="letters",
    title="Handwritten letters",
    task="multiclass",
    target="label",
    columns=64,
    classes=33,
    licence="free use, as the author says on Kaggle; no named licence",
    sources=(
        Source(
            files=(
                LIST,
                File(
                    "handwritten_letters/letters2_png.zip",
                    "37316757ae2a3e8f8262ef86af401fddde2038bbb17a912cd08a561a8b63fbbc",
                ),
            ),
            parse=parse,
            rows=5940,
            sha256="d08b354be11a22e265b3c76ff393b99ed29be27d26729517d233f8141ccdd060",
            note=NOTE,
        ),
        Source(
            files=(LIST, File("handwritten_letters/letters2.zip", "")),
            parse=parse,
            rows=5940,
            sha256="d08b354be11a22e265b3c76ff393b99ed29be27d26729517d233f8141ccdd060",
            origin=Kaggle("olgabelitskaya/classification-of-handwritten-letters", packed="letters2/**/*.png"),
            note=NOTE,
        ),
    ),
)
