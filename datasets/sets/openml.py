"""The data sets of OpenML: bank32nh, hiva, kin8nm, mtp, phoneme, texture, wind."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.catalogue import Entry, File, Source
from datasets.download import OpenML
from datasets.formats import read_arff, read_csv

if TYPE_CHECKING:
    import pandas


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
