"""The data sets from OpenML, from the LIBSVM data page and from Kaggle."""

import io
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int, UInt8

from datasets.catalogue import Entry, File, Source
from datasets.download import Kaggle, Libsvm, OpenML, Uci
from datasets.errors import BadInput
from datasets.formats import as_categories, read_arff, read_csv, read_libsvm

if TYPE_CHECKING:
    import pandas

# OpenML: bank32nh, hiva, kin8nm, mtp, phoneme, texture, wind.


def openml_table(folder: str, origin: OpenML, parse: "Callable[..., pandas.DataFrame]" = read_csv) -> Source:
    """Return the source `origin`, kept as ``<folder>/openml.csv``.

    Its bytes were never compared with the reference copies: rows, columns and target are what is verified.
    """
    note = "OpenML's own file, accepted by its shape and target"
    return Source(folder, [File("openml.csv", "")], parse, origin.rows, origin=origin, note=note)


# Bank32nh (OpenML 558): the share of customers turned away, in a simulation of banks.
BANK32NH = Entry("bank32nh", "Bank32nh", target="rej", columns=32, classes=0, licence="none stated (DELVE)",
    sources=[Source(
    "openml_558_bank32nh", [File("bank32nh.arff", "981ee722b3d562d454ecaba52b0eb2fa5b145f43b8dd986dcc9beefe70f988e0")],
    read_arff, rows=8192, sha256="c2fadec45965e7e68e59ee8abb8ad72513d1a3ad38d0968ed57e6748d668554a",
), openml_table("openml_558_bank32nh", OpenML(558, rows=8192, columns=33, target="rej"))])  # fmt: skip

# HIVA agnostic (OpenML task 3892, data 1039): active against HIV or not, from 1617 binary features.


def read_hiva(inputs: Path, labels: Path) -> "pandas.DataFrame":
    """Read the inputs and the labels; neither file has a header."""
    return read_csv(inputs, names=[f"attr{i}" for i in range(1617)]).join(read_csv(labels, names=["label"]))


HIVA = Entry("hiva", "HIVA agnostic", target="label", columns=1617, classes=2,
    licence="none granted (WCCI 2006 challenge)", sources=[Source(
    "openml_3892_hiva_agnostic", [
        File("X.csv.gz", "e2a9981288a4148160a6f405f5b435bd62fd4823459b7c85ffe7c7cf93f339ae"),
        File("y.csv.gz", "563c517cf2b4cb8aa9efdc4aee4d4964ab29f6f2f0b082f90582f712251e8e71")],
    read_hiva, rows=3076, sha256="2e2ec7dbc98c297ec5b36e9c2a1e46ddb93534cb13134427cd9af314fc9960cb", mark="partial",
    note="3076 of OpenML's 4229 rows: a stratified 80 % sample of the challenge's training part",
), openml_table("openml_3892_hiva_agnostic", OpenML(1039, rows=4229, columns=1618, target="label"))])  # fmt: skip

# Kin8nm (OpenML 189): how far the end of an eight-link robot arm is from a target.
KIN8NM = Entry("kin8nm", "Kin8nm", target="y", columns=8, classes=0, licence="none stated (DELVE)", sources=[Source(
    "openml_189_kin8nm", [File("kin8nm.arff", "64a4d839e3ce2fd57f57a21d612392170a57f9612fdd56a8fc35b4e7a5d59881")],
    read_arff, rows=8192, sha256="89679b123fc811f44f15712c13bd2ca99a3df1ce562ab50d8b332ee35f6c1f8d",
), openml_table("openml_189_kin8nm", OpenML(189, rows=8192, columns=9, target="y"))])  # fmt: skip

# Melting point (OpenML 405): the melting point of a compound from 202 descriptors of its molecule.


def read_mtp(path: Path) -> "pandas.DataFrame":
    """Read the comma separated file, without the original study's split; OpenML calls the target oz203."""
    frame = read_csv(path).rename(columns={"MP_Outcome": "melting_point", "oz203": "melting_point"})
    return frame.drop(columns="MP_Data", errors="ignore")


MTP = Entry("mtp", "Melting point", target="melting_point", columns=202, classes=0, licence="GPL (QSARdata)",
    sources=[Source(
    "openml_405_mtp", [
        File("MeltingPoint_converted.csv.gz", "581dffc092e3e4bc67b2d463e2f1f3c9f0c6adc361513c6d5906ee2d64acabb2")],
    read_mtp, rows=4401, sha256="f5c59b8a28fb3fd9f8e523d7806f392fdb8c751b048eb93546552c1c1a89b3fe", mark="stand-in",
    note="the same study's data in the R package QSARdata: 4401 of OpenML's 4450 compounds, unscaled",
), openml_table("openml_405_mtp", OpenML(405, rows=4450, columns=203, target="oz203"), read_mtp)])  # fmt: skip

# Phoneme (OpenML 1489): nasal or oral vowel, from the amplitudes of five harmonics.
PHONEME = Entry("phoneme", "Phoneme", target="Class", columns=5, classes=2,
    licence="ODC-PDDL (as stated by the repository of the copy)", sources=[Source(
    "openml_1489_phoneme", [File("phoneme.arff", "8dcd1c5236cea66cdc4e75cb84fbb4da7a4b1e8b1fe5ad5cd3fd825a1ae4c48b")],
    read_arff, rows=5404, sha256="43d30626a61d71cac8f71db924d1b4a13968c18a148bf9b6486683293049565e",
), openml_table("openml_1489_phoneme", OpenML(1489, rows=5404, columns=6, target="Class"))])  # fmt: skip

# Texture (OpenML task 125922, data 40499): which of eleven Brodatz textures, from 40 moments of an image.


def read_texture(path: Path) -> "pandas.DataFrame":
    """Read the comma separated file; OpenML calls the inputs V1 to V40, the reference copy A1 to A40."""
    frame = read_csv(path)
    return frame.set_axis([*(f"A{i}" for i in range(1, 41)), "Class"], axis=1)


TEXTURE = Entry("texture", "Texture", target="Class", columns=40, classes=11, licence="none stated (ELENA, KEEL)",
    sources=[Source(
    "openml_125922_texture", [File("texture.dat", "46072d41079d514daf08b82eeb0734ef624dcf3952b8b33c3b3c5ea4c744cd9d")],
    read_texture, rows=5500, sha256="a8d9a14c1e359a5c63de0d61d4f870cc270c71ff3417436443662c10230f59ce",
), openml_table("openml_125922_texture",
    OpenML(40499, rows=5500, columns=41, target="Class"), read_texture)])  # fmt: skip

# Wind (OpenML 503): the daily mean wind speed at Malin Head from eleven other Irish stations.
WIND = Entry("wind", "Wind", target="MAL", columns=14, classes=0, licence="unlimited distribution permitted (StatLib)",
    sources=[Source(
    "openml_503_wind", [File("wind.arff", "33b556d23b14f2a0a17de9332ccedbee2f23415e0446b0c45d6d3bd168320d0c")],
    read_arff, rows=6574, sha256="98cae1d4023995932e936a1f4c0a3420ce2d27866ebae9bb43066b85e620c75d",
), openml_table("openml_503_wind", OpenML(503, rows=6574, columns=15, target="MAL"))])  # fmt: skip

# LIBSVM: a1a, a3a, splice, w1a. None is a problem of the main study.

# Adult a1a and a3a (LIBSVM): income above 50,000 USD or not, from 123 binary features.
A1A = Entry("a1a", "Adult a1a", target="label", columns=123, classes=2, licence="none stated (LIBSVM; from UCI Adult)",
    use="figures", sources=[Source(
    "libsvm_a1a", [File("a1a", "eb54c45f1bdb51286f803dd092eb8202b44637a858fc6c4e533a2d64a0d94b4e")],
    partial(read_libsvm, columns=123), rows=1605, origin=Libsvm("binary/a1a"),
    sha256="7afe6b2b1fd6e4f45d03955a97ed6981317573a362d9a647bedbc088f34bb3cf", note="the training file only",
)])  # fmt: skip

A3A = Entry("a3a", "Adult a3a", target="label", columns=123, classes=2, licence="none stated (LIBSVM; from UCI Adult)",
    use="figures", kin=["a1a"], sources=[Source(
    "libsvm_a3a", [File("a3a.txt", "2d513572f103d25e84bebe4b9f2f52ee9445764b5a393caff7db9c482cfc1ee4")],
    partial(read_libsvm, columns=123), rows=3185, origin=Libsvm("binary/a3a"),
    sha256="4f4f1180f071fa4217b523677f11b2cb9c775f2ed2582986d0c3f8019b0489bc",
    note="the training file only; it holds every row of a1a",
)])  # fmt: skip

# Splice (LIBSVM): a splice junction of DNA or none, from 60 nucleotides.
_SPLICE_ROWS = 1000


def read_splice(path: Path) -> "pandas.DataFrame":
    """Read the first 1000 rows (a copy that goes on has the test rows after them)."""
    frame = read_libsvm(path, columns=60, limit=_SPLICE_ROWS)
    inputs = frame.columns.drop("label")
    return as_categories(frame.astype(dict.fromkeys(inputs, "int64")), inputs)


_SPLICE = Source(
    "libsvm_splice", [File("splice.txt", "4ac8c916aa0feb37f1a904db9c32e82e42b7fc7821bf7f1281f2702c5f8653c1")],
    read_splice, rows=_SPLICE_ROWS, sha256="1e6cfedbb3481389b8c5b1219e302935a0e2751a075672f2fc978e625bdd9289",
    note="the 1000 training rows; nucleotides are codes (1 A, 2 G, 3 C, 4 T) and taken as nominal",
)  # fmt: skip
_AT_LIBSVM = [File("splice", "5eee48697657a500cf014322130fafc46706beb8d8ae6837cdbee6672b213897")]

SPLICE = Entry("splice", "Splice", target="label", columns=60, classes=2,
    licence="none stated (LIBSVM; from Delve and UCI)", use="figures",
    sources=[_SPLICE, replace(_SPLICE, files=_AT_LIBSVM, origin=Libsvm("binary/splice"))])  # fmt: skip

# Web pages w1a (LIBSVM): whether a page belongs to a category, from 300 binary keyword features.
W1A = Entry("w1a", "Web pages w1a", target="label", columns=300, classes=2,
    licence="none stated (LIBSVM; from J. Platt's web-page data)", use="opportunity", sources=[Source(
    "libsvm_w1a", [
        File("w1a.txt", "4429b80934e3ab86ea346cf84df35524575924c8ae88ce874a4303ec34d6d7e5",
             twin="0ae2b1c40f6a99061d1c6f4a1f3b50eea58a2f3b8bf851a337c25c2a65a49d32")],
    partial(read_libsvm, columns=300), rows=2477, origin=Libsvm("binary/w1a"),
    sha256="47b5878b8137f0309876df9f5e313421348fdd9705059762d45991975aef9b9f",
)])  # fmt: skip

# Kaggle: handwritten letters and SMS spam.

# Handwritten letters (Kaggle olgabelitskaya/classification-of-handwritten-letters): 33 Russian letters.
#
# Inputs: 64 means over blocks of 4 x 4 pixels of images with mean 0 and standard deviation 1.

SIDE, BLOCK = 32, 4


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


_LETTERS = Source(
    "handwritten_letters", [
        File("letters2.csv", "e5ba9c7659fe93a84d45b17248238effae57d95aa4b8af4b3bf5e142421eee75"),
        File("letters2_png.zip", "37316757ae2a3e8f8262ef86af401fddde2038bbb17a912cd08a561a8b63fbbc")],
    read_letters, rows=5940, sha256="75bebf74b39dd0573afe790b7b853fb1a7067e67f0937f108a6e3a1655864047",
    note="the 5940 images of letters2 (no background), grey, standardised one by one, averaged to 8 x 8 (our reading)",
)  # fmt: skip
_AT_KAGGLE = Kaggle("olgabelitskaya/classification-of-handwritten-letters", packed="letters2/**/*.png")

LETTERS = Entry("letters", "Handwritten letters", target="label", columns=64, classes=33,
    licence="free use, as the author says on Kaggle; no named licence",
    sources=[_LETTERS, replace(_LETTERS, files=[_LETTERS.files[0], File("letters2.zip", "")], origin=_AT_KAGGLE)],
)  # fmt: skip

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
