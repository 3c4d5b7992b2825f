"""Handwritten letters (Kaggle olgabelitskaya/classification-of-handwritten-letters): 33 Russian letters.

Inputs: 64 means over blocks of 4 x 4 pixels of images with mean 0 and standard deviation 1.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int, UInt8

from datasets.catalogue import Entry, File, Source
from datasets.errors import BadInput
from datasets.origins import Kaggle

if TYPE_CHECKING:
    import pandas

SIDE, BLOCK = 32, 4
INPUTS = tuple(f"p{row}{column}" for row in range(SIDE // BLOCK) for column in range(SIDE // BLOCK))
NOTE = "the 5940 images of letters2 (no background), grey, standardised one by one, averaged to 8 x 8 (our reading)"


def parse(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the list of images and the zip file of PNGs it names, wherever in the archive they lie.

    Paper and light differ from photograph to photograph more than the letters do, so each image is standardised over
    its own pixels first: (luma - mean) / sd. Raises BadInput for an image of one shade.
    """
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
    blocks = _standardised_blocks(luma.astype(np.int64), list(listed["file"]))
    return pandas.DataFrame(blocks.reshape(len(luma), -1), columns=list(INPUTS)).assign(label=listed["label"])


def _standardised_blocks(luma: Int[np.ndarray, "n 32 32"], names: Sequence[str]) -> Float[np.ndarray, "n 8 8"]:
    """Return the block means of (luma - mean) / sd, each image having its own mean and sd.

    With S the sum over an image of N pixels, Q that of the squares and B that over a block, one of N / b blocks, this
    is (B N / b - S) / sqrt(N Q - S^2): whole numbers but for the last two operations, so the same on any processor.
    """
    total, squares = luma.sum(axis=(1, 2), keepdims=True), (luma**2).sum(axis=(1, 2), keepdims=True)
    spread = SIDE**2 * squares - total**2
    if not spread.all():
        raise BadInput(f"the image {names[int(np.argmin(spread))]} is of one shade")
    block = luma.reshape(-1, SIDE // BLOCK, BLOCK, SIDE // BLOCK, BLOCK).sum(axis=(2, 4))
    return (block * (SIDE // BLOCK) ** 2 - total) / np.sqrt(spread)


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
            sha256="75bebf74b39dd0573afe790b7b853fb1a7067e67f0937f108a6e3a1655864047",
            note=NOTE,
        ),
        Source(
            files=(LIST, File("handwritten_letters/letters2.zip", "")),
            parse=parse,
            rows=5940,
            sha256="75bebf74b39dd0573afe790b7b853fb1a7067e67f0937f108a6e3a1655864047",
            origin=Kaggle("olgabelitskaya/classification-of-handwritten-letters", packed="letters2/**/*.png"),
            note=NOTE,
        ),
    ),
)
