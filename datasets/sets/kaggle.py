"""The data sets from Kaggle: handwritten letters and SMS spam."""

import io
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int, UInt8

from datasets.catalogue import Entry, File, Source
from datasets.download import Kaggle, Uci
from datasets.errors import BadInput
from datasets.formats import read_csv

if TYPE_CHECKING:
    import pandas

# Handwritten letters (Kaggle olgabelitskaya/classification-of-handwritten-letters): 33 Russian letters.
#
# Inputs: 64 means over blocks of 4 x 4 pixels of images with mean 0 and standard deviation 1.

SIDE, BLOCK = 32, 4
_LETTERS_NOTE = (
    "the 5940 images of letters2 (no background), grey, standardised one by one, averaged to 8 x 8 (our reading)"
)


def read_letters(names: Path, images: Path) -> "pandas.DataFrame":
    """Read the list of images and the zip file of PNGs it names, wherever in the archive they lie.

    Paper and light differ from photograph to photograph more than the letters do, so each image is standardised over
    its own pixels first: (luma - mean) / sd. Raises BadInput for an image of one shade.
    """
    import pandas

    listed = read_csv(names)
    with zipfile.ZipFile(images) as archive:
        members = {Path(member).name: member for member in archive.namelist()}
        missing = [file for file in listed["file"] if file not in members]
        if missing:
            raise BadInput(f"{images} lacks {len(missing)} of the listed images, {missing[0]} for one")
        luma = np.stack([_luma(archive.read(members[file])) for file in listed["file"]])
    blocks = _standardised_blocks(luma.astype(np.int64), list(listed["file"]))
    inputs = [f"p{row}{column}" for row in range(SIDE // BLOCK) for column in range(SIDE // BLOCK)]
    return pandas.DataFrame(blocks.reshape(len(luma), -1), columns=inputs).assign(label=listed["label"])


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
    from PIL import Image

    with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
        colour = image.convert("RGB")
    if colour.size != (SIDE, SIDE):  # a few are 31 or 33 wide or high
        colour = colour.resize((SIDE, SIDE), Image.Resampling.NEAREST)
    return np.asarray(colour.convert("L"))


LETTERS = Entry("letters", "Handwritten letters", target="label", columns=64, classes=33,
    licence="free use, as the author says on Kaggle; no named licence", sources=[Source(
    "handwritten_letters", [
        File("letters2.csv", "e5ba9c7659fe93a84d45b17248238effae57d95aa4b8af4b3bf5e142421eee75"),
        File("letters2_png.zip", "37316757ae2a3e8f8262ef86af401fddde2038bbb17a912cd08a561a8b63fbbc")],
    read_letters, rows=5940, sha256="75bebf74b39dd0573afe790b7b853fb1a7067e67f0937f108a6e3a1655864047",
    note=_LETTERS_NOTE,
), Source(
    "handwritten_letters", [
        File("letters2.csv", "e5ba9c7659fe93a84d45b17248238effae57d95aa4b8af4b3bf5e142421eee75"),
        File("letters2.zip", "")],
    read_letters, rows=5940,
    origin=Kaggle("olgabelitskaya/classification-of-handwritten-letters", packed="letters2/**/*.png"),
    sha256="75bebf74b39dd0573afe790b7b853fb1a7067e67f0937f108a6e3a1655864047", note=_LETTERS_NOTE,
)])  # fmt: skip

# SMS spam (Kaggle team-ai/spam-text-message-classification; UCI 228): spam or ham, from the message.
#
# In Kaggle's file one message holds line ends inside its quotes; in UCI's, quotes are part of the text.

SPAM = Entry("spam", "SMS spam", target="Category", columns=1, classes=2,
    licence="free with copyright notice (Almeida, Gomez Hidalgo); asks for a citation", sources=[Source(
    "sms_spam", [
        File("SPAM text message 20170820 - Data.csv",
             "1f0573aa3e3e8f5b37a753a454058a9ef9ebb981bcabeeb7ef43cdccedaecf29")],
    partial(read_csv, strip=False), rows=5572, origin=Kaggle("team-ai/spam-text-message-classification"),
    sha256="f9d3d815e328b794978984e76fa00c039587ee74c5f71216182bfcc31b070472",
), Source(
    "sms_spam", [File("SMSSpamCollection", "7d039a24a6083ed9ef0f806ebad56bbb976e3aeb8de05669173bfdc4996c239d")],
    partial(read_csv, names=["Category", "Message"], sep="\t", quoted=False, strip=False), rows=5574,
    origin=Uci(228, "sms+spam+collection"), sha256="4082fa7212d3c27f529de9f2fc7af1aa9b41e5e216c92d51b6df3117dab21ecc",
    note="the UCI file: 5574 messages, of which the Kaggle file merges three and damages three",
)])  # fmt: skip
