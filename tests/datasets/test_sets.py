"""Every data set against what its source says of it: sizes, class counts, ranges, odd rows."""

import hashlib

import numpy as np
import pandas
import pytest
from conftest import loaded, needs_data
from hydra.utils import instantiate

from datasets import names, split
from datasets.catalogue import entries
from datasets.download import find
from datasets.errors import BadInput

pytestmark = needs_data
ALL = tuple(entries())

# name: rows, inputs, rows of each class in the order of the class codes (None: regression)
SIZES = {
    "abalone": (4177, 8, None),
    "satellite": (6435, 36, [1533, 703, 1358, 626, 707, 1508]),
    "turkiye": (5820, 32, [1620, 549, 1774, 1225, 652]),
    "coil2000": (9822, 85, [9822 - 348 - 238, 348 + 238]),
    "parkinsons": (5875, 19, None),
    "pendigits": (10992, 16, [1143, 1143, 1144, 1055, 1144, 1055, 1056, 1142, 1055, 1055]),
    "hiva": (3076, 1617, [2968, 108]),
    "mtp": (4401, 202, None),
    "texture": (5500, 40, [500] * 11),
    "satimage_code": (6435, 36, None),
    "wine": (6497, 11, None),
    "wind": (6574, 14, None),
    "kin8nm": (8192, 8, None),
    "bank32nh": (8192, 32, None),
    "phoneme": (5404, 5, [3818, 1586]),
    "spam": (5572, 1, [4825, 747]),
    "letters": (5940, 64, [180] * 33),
    "a1a": (1605, 123, [1210, 395]),
    "a3a": (3185, 123, [2412, 773]),
    "splice": (1000, 60, [483, 517]),
    "ionosphere": (351, 34, [126, 225]),
    "sonar": (208, 60, [111, 97]),
    "australian": (690, 14, [383, 307]),
    "w1a": (2477, 300, [2405, 72]),
}
TARGETS = {  # least, largest and, where the source prints it, mean of a regression target
    "abalone": (1, 29, 9.934),
    "parkinsons": (7, 54.992, 29.0189),
    "mtp": (14, 392.5, None),
    "satimage_code": (1, 7, None),
    "wine": (3, 9, None),
    "bank32nh": (0, 0.82, None),
    "kin8nm": (0.04, 1.46, None),
}
SPLITS = {  # the first half of the SHA-256 of train, valid and test rows under seed 0
    "abalone": "178590c71ceee889",
    "bach": "14befaf4660fe316",
    "bank32nh": "94b9bc749ffe3cee",
    "coil2000": "3d3fc5eb7e55d731",
    "hiva": "f24a426c81c72fa2",
    "kin8nm": "795a6d2514777562",
    "letters": "6ccff18d27831754",
    "mtp": "dd9ec1f034981dc7",
    "parkinsons": "e20fae64d8b43a4f",
    "pendigits": "61670c2799acb032",
    "phoneme": "df669365bbce890d",
    "satellite": "adadd3be5e00c6ac",
    "satimage_code": "8bca0ddb2d3b155a",
    "spam": "abdf082baeb4271c",
    "texture": "a5a914e76adae5fe",
    "turkiye": "278b2884cb803c2a",
    "wind": "0e813e399f06ad6f",
    "wine": "0f72fbce7d820286",
}


@pytest.mark.parametrize("name", ALL)
def test_what_every_data_set_must_be(name):
    data, entry = loaded(name), entries()[name]
    assert (data.name, data.task) == (name, entry.task)
    assert len(data.X) == len(data.y)
    assert not data.X.isna().any().any()
    assert entry.target not in data.X.columns
    assert data.X.columns.is_unique
    assert data.X.index.equals(pandas.RangeIndex(len(data.y)))
    if data.task == "regression":
        assert data.classes == ()
        assert data.y.dtype == np.float64
        assert np.isfinite(data.y).all()
    else:
        assert data.y.dtype == np.int64
        assert np.array_equal(np.unique(data.y), np.arange(len(data.classes)))


@pytest.mark.parametrize("name", ALL)
def test_kinds_of_columns(name):
    data = loaded(name)
    nominal = {
        "abalone": {"Sex"},
        "coil2000": {"MOSTYPE", "MOSHOOFD"},
        "bach": {"V1", *(f"V{i}" for i in range(3, 16))},
        "splice": set(data.X.columns),
    }.get(name, set())
    text = {"Message"} if name == "spam" else set()
    for column in data.X.columns:
        kind = data.X[column].dtype
        if column in nominal:
            assert isinstance(kind, pandas.CategoricalDtype)
        else:
            assert pandas.api.types.is_numeric_dtype(kind) != (column in text)


@pytest.mark.parametrize("name", SIZES)
def test_size_and_class_counts(name):
    rows, columns, counts = SIZES[name]
    data = loaded(name)
    assert data.X.shape == (rows, columns)
    assert (None if data.task == "regression" else np.bincount(data.y).tolist()) == counts


@pytest.mark.parametrize("name", TARGETS)
def test_range_of_the_target(name):
    least, largest, mean = TARGETS[name]
    y = loaded(name).y
    # the sources print two to four decimals
    assert y.min() == pytest.approx(least, abs=0.005)
    assert y.max() == pytest.approx(largest, abs=0.005)
    if mean is not None:
        assert y.mean() == pytest.approx(mean, abs=0.0005)


def test_class_labels_stand_in_the_order_of_their_values():
    assert loaded("satellite").classes == ("1", "2", "3", "4", "5", "7")
    assert loaded("texture").classes == ("2", "3", "4", "6", "7", "8", "9", "10", "12", "13", "14")
    assert loaded("letters").classes == tuple(str(i) for i in range(1, 34))
    assert loaded("hiva").classes == loaded("a1a").classes == loaded("splice").classes == ("-1", "1")
    assert loaded("spam").classes == ("ham", "spam")


def test_bach_pools_the_chords_with_fewer_than_five_rows():
    data = loaded("bach")
    counts = dict(zip(data.classes, np.bincount(data.y), strict=True))
    raw = pandas.read_csv(find(entries()["bach"]).paths[0], header=None, usecols=[16])[16].str.strip()
    all_chords = raw.value_counts()
    assert (len(raw), len(all_chords), all_chords.max()) == (5665, 102, 503)
    assert counts == {**all_chords[all_chords >= 5], "rare": all_chords[all_chords < 5].sum()}
    assert data.mark == "identity uncertain"
    assert "'rare'" in data.note
    assert all(set(data.X[f"V{i}"].cat.categories) == {"YES", "NO"} for i in range(3, 15))
    # the source counts 62 chorals, two of which are names that stray blanks split in two
    assert (len(data.X["V1"].cat.categories), len(data.X["V15"].cat.categories)) == (60, 16)


def test_counts_that_only_a_right_reading_gives():
    assert loaded("abalone").X["Sex"].value_counts().to_dict() == {"M": 1528, "I": 1342, "F": 1307}
    assert (loaded("abalone").X["Height"] == 0).sum() == 2
    assert loaded("hiva").X.to_numpy().sum() == 453_618
    assert loaded("parkinsons").X["test_time"].min() == pytest.approx(-4.2625)
    assert not {"subject#", "motor_UPDRS"} & set(loaded("parkinsons").X.columns)
    quality = np.unique(loaded("wine").y, return_counts=True)[1].tolist()
    assert quality == [30, 216, 2138, 2836, 1079, 193, 5]
    assert loaded("wine").X.iloc[1599].tolist()[:2] == [7.0, 0.27]  # the first white wine
    attendance = loaded("turkiye").X["attendance"].value_counts().sort_index().tolist()
    assert attendance == [1902, 1028, 792, 1252, 846]


def test_spam_messages_are_read_as_they_stand():
    messages = loaded("spam").X["Message"]
    assert messages.nunique() == 5157
    assert messages.str.contains("\n").any()  # line ends inside quotes
    assert (messages.str.len() > 0).all()


def test_inputs_of_phoneme_are_standardised_as_openml_has_them():
    X = loaded("phoneme").X
    np.testing.assert_allclose(X.mean(), 0, atol=1e-4)
    np.testing.assert_allclose(X.std(), 1, atol=1e-3)


def test_adult_sets_are_nested_and_sparse_as_described():
    small, large = loaded("a1a"), loaded("a3a")
    assert small.X.to_numpy().sum(axis=1).mean() == pytest.approx(13.9, abs=0.05)
    rows = {(*x, y) for x, y in zip(large.X.to_numpy().tolist(), large.y, strict=False) for x in [tuple(x)]}
    assert all((*x, y) in rows for x, y in zip(small.X.to_numpy().tolist(), small.y, strict=True))


def test_codes_of_splice_are_the_four_nucleotides():
    X = loaded("splice").X
    assert set(np.unique(X.to_numpy())) == {1, 2, 3, 4}


def test_the_regression_on_the_class_code_is_the_satellite_data_with_codes_for_targets():
    classes, code = loaded("satellite"), loaded("satimage_code")
    assert code.X.equals(classes.X)
    assert np.array_equal(code.y, np.array(classes.classes, dtype=float)[classes.y])
    assert code.sha256 != classes.sha256


def test_a_letter_equals_the_block_means_of_its_standardised_image():
    import io
    import zipfile

    import matplotlib.image

    data = loaded("letters")
    listed, images = find(entries()["letters"]).paths
    table = pandas.read_csv(listed)
    with zipfile.ZipFile(images) as archive:
        for row in (0, 2500, 5939):
            png = io.BytesIO(archive.read(table["file"][row]))
            colour = matplotlib.image.imread(png)[..., :3] * 255.0
            luma = np.rint(colour @ [0.299, 0.587, 0.114])
            pixels = (luma - luma.mean()) / luma.std()
            blocks = [[pixels[4 * i : 4 * i + 4, 4 * j : 4 * j + 4].mean() for j in range(8)] for i in range(8)]
            # a luma that lies half way between two whole numbers may be rounded otherwise
            np.testing.assert_allclose(data.X.iloc[row], np.ravel(blocks), atol=0.01)
    assert (
        np.abs(data.X.to_numpy().mean(axis=1)).max() < 1e-12
    )  # of blocks of one size: the mean over an image's pixels
    assert (data.y == table["label"] - 1).all()


def test_an_image_of_one_shade_is_refused():
    from datasets.sets.kaggle import _standardised_blocks

    images = np.zeros((2, 32, 32), dtype=np.int64)
    images[0, 3, 4] = 1
    with pytest.raises(BadInput, match=r"the image b\.png is of one shade"):
        _standardised_blocks(images, ["a.png", "b.png"])


@pytest.mark.parametrize("name", names())
def test_the_split_is_the_golden_one(name):
    data = loaded(name)
    cut = split(data)
    sizes = np.array([len(cut.train), len(cut.valid), len(cut.test)])
    assert sizes.sum() == len(data.y)
    assert np.all(np.abs(sizes - np.array([0.6, 0.2, 0.2]) * len(data.y)) <= 1)
    if data.classes:
        assert len(np.unique(data.y[cut.train])) == len(data.classes)
    sha = hashlib.sha256()
    for part in (cut.train, cut.valid, cut.test):
        sha.update(part.astype("<i8").tobytes())
    assert sha.hexdigest()[:16] == SPLITS[name]


def test_a_configuration_instantiates_to_its_data_set_and_a_name_splits_like_it():
    built = instantiate({"_target_": "datasets.load", "name": "wine"})
    assert built.sha256 == loaded("wine").sha256
    assert np.array_equal(split("wine", 3).train, split(built, 3).train)
