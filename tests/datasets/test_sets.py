"""Every data set against what its source says of it: sizes, class counts, ranges, odd rows."""

import hashlib
import io
import re
import zipfile

import matplotlib.image
import numpy as np
import pandas
import pytest
from hydra.utils import instantiate
from raw_data import ROOT, loaded, needs_data

from datasets import names, split
from datasets.catalogue import entries
from datasets.download import find
from datasets.errors import BadInput
from datasets.sets.others import _standardised_blocks

pytestmark = needs_data
ROWS = [line.strip("|").split("|") for line in (ROOT / "datasets/README.md").read_text().splitlines() if "|" in line]
README = {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in ROWS}

NOMINAL = {
    "abalone": {"Sex"}, "coil2000": {"MOSTYPE", "MOSHOOFD"}, "bach": {"V1", *(f"V{i}" for i in range(3, 16))},
    "splice": {f"f{i}" for i in range(1, 61)},
}  # fmt: skip
SPLITS = {  # the first half of the SHA-256 of train, valid and test rows under seed 0
    "abalone": "178590c71ceee889", "bach": "14befaf4660fe316", "bank32nh": "94b9bc749ffe3cee",
    "coil2000": "3d3fc5eb7e55d731", "hiva": "f24a426c81c72fa2", "kin8nm": "795a6d2514777562",
    "letters": "6ccff18d27831754", "mtp": "dd9ec1f034981dc7", "parkinsons": "e20fae64d8b43a4f",
    "pendigits": "61670c2799acb032", "phoneme": "df669365bbce890d", "satellite": "adadd3be5e00c6ac",
    "satimage_code": "8bca0ddb2d3b155a", "spam": "abdf082baeb4271c", "texture": "a5a914e76adae5fe",
    "turkiye": "278b2884cb803c2a", "wind": "0e813e399f06ad6f", "wine": "0f72fbce7d820286",
}  # fmt: skip


@pytest.mark.parametrize("name", entries())
def test_a_data_set_is_what_its_source_says(name):
    """Whose values have the recorded checksum, without which `loaded` would fail."""
    data, entry = loaded(name), entries()[name]
    assert (data.name, data.task) == (name, entry.task)
    assert not data.X.isna().any().any()
    assert entry.target not in data.X.columns and data.X.columns.is_unique
    assert data.X.index.equals(pandas.RangeIndex(len(data.y)))
    if data.task == "regression":
        assert data.classes == () and data.y.dtype == np.float64
    else:
        assert data.y.dtype == np.int64
        assert np.array_equal(np.unique(data.y), np.arange(len(data.classes)))
        said = README[name][3].partition(": ")[2]
        span = re.fullmatch(r"(\d+) to (\d+)", said)
        listed = tuple(map(str, range(int(span[1]), int(span[2]) + 1))) if span else tuple(said.split(", "))
        assert data.classes == listed or said == f"{len(data.classes)} chord labels"
    for column, kind in data.X.dtypes.items():
        assert isinstance(kind, pandas.CategoricalDtype) == (column in NOMINAL.get(name, set()))
        if not isinstance(kind, pandas.CategoricalDtype):
            assert pandas.api.types.is_numeric_dtype(kind) != (name == "spam")


def test_bach_pools_the_chords_with_fewer_than_five_rows():
    data = loaded("bach")
    counts = dict(zip(data.classes, np.bincount(data.y), strict=True))
    raw = pandas.read_csv(find(entries()["bach"]).paths[0], header=None, usecols=[16])[16].str.strip()
    all_chords = raw.value_counts()
    assert (len(raw), len(all_chords), all_chords.max()) == (5665, 102, 503)
    assert counts == {**all_chords[all_chords >= 5], "rare": all_chords[all_chords < 5].sum()}
    assert all(set(data.X[f"V{i}"].cat.categories) == {"YES", "NO"} for i in range(3, 15))
    # the source counts 62 chorals, two of which are names that stray blanks split in two
    assert (len(data.X["V1"].cat.categories), len(data.X["V15"].cat.categories)) == (60, 16)


def test_counts_that_only_a_right_reading_gives():
    assert loaded("abalone").X["Sex"].value_counts().to_dict() == {"M": 1528, "I": 1342, "F": 1307}
    assert (loaded("abalone").X["Height"] == 0).sum() == 2
    assert loaded("hiva").X.to_numpy().sum() == 453_618
    assert loaded("parkinsons").X["test_time"].min() == pytest.approx(-4.2625)
    assert not {"subject#", "motor_UPDRS"} & set(loaded("parkinsons").X.columns)
    counts = {name: np.unique(loaded(name).y, return_counts=True)[1].tolist() for name in ("wine", "hiva", "pendigits")}
    assert counts["wine"] == [30, 216, 2138, 2836, 1079, 193, 5] and counts["hiva"] == [2968, 108]
    assert counts["pendigits"] == [1143, 1143, 1144, 1055, 1144, 1055, 1056, 1142, 1055, 1055]
    assert loaded("abalone").y.mean() == pytest.approx(9.934, abs=0.0005)
    assert (loaded("mtp").y.min(), loaded("mtp").y.max()) == (14, 392.5)
    assert loaded("wine").X.iloc[1599].tolist()[:2] == [7.0, 0.27]  # the first white wine
    attendance = loaded("turkiye").X["attendance"].value_counts().sort_index().tolist()
    assert attendance == [1902, 1028, 792, 1252, 846]
    messages = loaded("spam").X["Message"]
    assert messages.nunique() == 5157
    assert messages.str.contains("\n").any()  # line ends inside quotes
    np.testing.assert_allclose(loaded("phoneme").X.std(), 1, atol=1e-3)  # standardised, as OpenML has it
    assert set(np.unique(loaded("splice").X.to_numpy())) == {1, 2, 3, 4}  # the four nucleotides


def test_data_sets_that_share_rows():
    small, large = loaded("a1a"), loaded("a3a")
    assert small.X.to_numpy().sum(axis=1).mean() == pytest.approx(13.9, abs=0.05)
    of_large, of_small = ({row.tobytes() for row in d.X.assign(y=d.y).to_numpy()} for d in (large, small))
    assert of_small <= of_large
    classes, code = loaded("satellite"), loaded("satimage_code")
    assert code.X.equals(classes.X)
    assert np.array_equal(code.y, np.array(classes.classes, dtype=float)[classes.y])


def test_a_letter_equals_the_block_means_of_its_standardised_image():
    data = loaded("letters")
    listed, images = find(entries()["letters"]).paths
    table = pandas.read_csv(listed)
    with zipfile.ZipFile(images) as archive:
        for row in (0, 2500, 5939):
            colour = matplotlib.image.imread(io.BytesIO(archive.read(table["file"][row])))[..., :3] * 255.0
            luma = np.rint(colour @ [0.299, 0.587, 0.114])
            pixels = (luma - luma.mean()) / luma.std()
            blocks = [[pixels[4 * i : 4 * i + 4, 4 * j : 4 * j + 4].mean() for j in range(8)] for i in range(8)]
            # a luma that lies half way between two whole numbers may be rounded otherwise
            np.testing.assert_allclose(data.X.iloc[row], np.ravel(blocks), atol=0.01)
    assert np.abs(data.X.to_numpy().mean(axis=1)).max() < 1e-12  # the mean over an image's pixels
    assert (data.y == table["label"] - 1).all()
    images = np.zeros((2, 32, 32), dtype=np.int64)
    images[0, 3, 4] = 1
    with pytest.raises(BadInput, match=r"the image b\.png is of one shade"):
        _standardised_blocks(images, ["a.png", "b.png"])


@pytest.mark.parametrize("name", names())
def test_the_split_is_the_golden_one(name):
    data = loaded(name)
    cut = split(data)
    sha = hashlib.sha256()
    for part in (cut.train, cut.valid, cut.test):
        sha.update(part.astype("<i8").tobytes())
    assert sha.hexdigest()[:16] == SPLITS[name]
    assert not data.classes or len(np.unique(data.y[cut.train])) == len(data.classes)


def test_a_configuration_instantiates_to_its_data_set_and_a_name_splits_like_it():
    built = instantiate({"_target_": "datasets.load", "name": "wine"})
    assert built.sha256 == loaded("wine").sha256
    assert np.array_equal(split("wine", 3).train, split(built, 3).train)
