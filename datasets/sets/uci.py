"""The data sets from the UCI repository, from abalone to wine."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.catalogue import Entry, File, Source, Uci
from datasets.formats import csv_table

if TYPE_CHECKING:
    import pandas


# Abalone (UCI 1): the age of a shellfish, in rings, from its measures.

_ABALONE_COLUMNS = (
    "Sex",
    "Length",
    "Diameter",
    "Height",
    "Whole_weight",
    "Shucked_weight",
    "Viscera_weight",
    "Shell_weight",
    "Rings",
)


def read_abalone(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the comma separated file; Sex (M, F, I) is nominal."""
    from datasets.formats import as_categories, read_csv

    return as_categories(read_csv(files[0], _ABALONE_COLUMNS), ["Sex"])


ABALONE = Entry(
    name="abalone",
    title="Abalone",
    task="regression",
    target="Rings",
    columns=8,
    classes=0,
    licence="CC BY 4.0 (UCI)",
    sources=(
        Source(
            files=(File("abalone/abalone.data", "de37cdcdcaaa50c309d514f248f7c2302a5f1f88c168905eba23fe2fbc78449f"),),
            parse=read_abalone,
            rows=4177,
            sha256="5513ea93d6c73064af1e3efa9654f3b150b9087bd0aac4c1d75881f0e4e56f5f",
            origin=Uci(1, "abalone"),
        ),
    ),
)


# Statlog, Australian credit approval (UCI 143): granted or not, from 14 attributes without names.
#
# Blank separated; categorical attributes come as codes and are taken as numbers.

_AUSTRALIAN_COLUMNS = (*(f"A{i}" for i in range(1, 15)), "class")


AUSTRALIAN = Entry(
    name="australian",
    title="Statlog (Australian Credit Approval)",
    task="binary",
    target="class",
    columns=14,
    classes=2,
    licence="CC BY 4.0 (UCI)",
    use="opportunity",
    sources=(
        Source(
            files=(
                File(
                    "australian/australian.dat.txt",
                    "3abe5af151afa50b999a9ba21cbc884e80d80a4050b716cf88b34a2e6ecb731c",
                    twin="ad7cd87fbb605230882af6afa462a4a9baf91f2ac3d08d146c251ed16ccf38be",
                ),
            ),
            parse=partial(csv_table, names=_AUSTRALIAN_COLUMNS, sep=" "),
            rows=690,
            sha256="a8d0f31616e66becbf706dba87d52d395f18bf10e277f85f0010a7bfbb9d390c",
            origin=Uci(143, "statlog+australian+credit+approval"),
        ),
    ),
)


# Bach Choral Harmony (UCI 298; OpenML task 14953?): the chord, from pitch classes, bass and meter.

_BACH_COLUMNS = tuple(f"V{i}" for i in range(1, 18))
_BACH_NOMINAL = ("V1", *(f"V{i}" for i in range(3, 16)))
_BACH_FEWEST = 5
_BACH_NOTE = (
    "that OpenML task 14953 is this data set is about 75 % certain; "
    f"of 102 chord labels, those with fewer than {_BACH_FEWEST} rows form one class, 'rare'"
)


def read_bach(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the comma separated file, some of whose fields start with a blank; pool the rare chords."""
    from datasets.formats import as_categories, read_csv

    frame = read_csv(files[0], _BACH_COLUMNS)
    counts = frame["V17"].map(frame["V17"].value_counts())
    return as_categories(frame, _BACH_NOMINAL).assign(V17=frame["V17"].where(counts >= _BACH_FEWEST, "rare"))


BACH = Entry(
    name="bach",
    title="Bach Choral Harmony",
    task="multiclass",
    target="V17",
    columns=16,
    classes=69,
    licence="CC BY 4.0 (UCI)",
    sources=(
        Source(
            files=(
                File(
                    "openml_14953_BachChoralHarmony/jsbach_chorals_harmony.data",
                    "81554b251ca9183686b0aa207f214ea92fd48dbb73ef89fa1678a257d3a57457",
                ),
            ),
            parse=read_bach,
            rows=5665,
            sha256="53e8c2deea2c9b27e7beee032cc50947508140a861abb99dbdd2480125c2ca55",
            origin=Uci(298, "bach+choral+harmony"),
            mark="identity uncertain",
            note=_BACH_NOTE,
        ),
    ),
)


# Insurance Company Benchmark, CoIL 2000 (UCI 125): who holds a caravan insurance.

_COIL2000_FOLDER = "insurance_company_benchmark_coil2000"
_COIL2000_NAMES = """
    MOSTYPE MAANTHUI MGEMOMV MGEMLEEF MOSHOOFD MGODRK MGODPR MGODOV MGODGE MRELGE MRELSA MRELOV MFALLEEN
    MFGEKIND MFWEKIND MOPLHOOG MOPLMIDD MOPLLAAG MBERHOOG MBERZELF MBERBOER MBERMIDD MBERARBG MBERARBO
    MSKA MSKB1 MSKB2 MSKC MSKD MHHUUR MHKOOP MAUT1 MAUT2 MAUT0 MZFONDS MZPART MINKM30 MINK3045 MINK4575
    MINK7512 MINK123M MINKGEM MKOOPKLA PWAPART PWABEDR PWALAND PPERSAUT PBESAUT PMOTSCO PVRAAUT PAANHANG
    PTRACTOR PWERKT PBROM PLEVEN PPERSONG PGEZONG PWAOREG PBRAND PZEILPL PPLEZIER PFIETS PINBOED
    PBYSTAND AWAPART AWABEDR AWALAND APERSAUT ABESAUT AMOTSCO AVRAAUT AAANHANG ATRACTOR AWERKT ABROM
    ALEVEN APERSONG AGEZONG AWAOREG ABRAND AZEILPL APLEZIER AFIETS AINBOED ABYSTAND
"""
_COIL2000_INPUTS = tuple(_COIL2000_NAMES.split())
_COIL2000_CODES = ("MOSTYPE", "MOSHOOFD")


def read_coil2000(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the training part and the evaluation part with its targets; the two type codes are nominal."""
    import pandas

    from datasets.formats import as_categories, read_csv

    train = read_csv(files[0], (*_COIL2000_INPUTS, "CARAVAN"), sep="\t")
    evaluation = read_csv(files[1], _COIL2000_INPUTS, sep="\t").assign(
        CARAVAN=read_csv(files[2], ["CARAVAN"])["CARAVAN"]
    )
    frame = pandas.concat([train, evaluation], ignore_index=True)
    return as_categories(frame, _COIL2000_CODES)


COIL2000 = Entry(
    name="coil2000",
    title="Insurance Company Benchmark (CoIL 2000)",
    task="binary",
    target="CARAVAN",
    columns=85,
    classes=2,
    licence="non-commercial research and education only (Sentient Machine Research)",
    sources=(
        Source(
            files=(
                File(
                    f"{_COIL2000_FOLDER}/ticdata2000.txt",
                    "4e967da7c4d1759b9f2ddbd39aace45af6a6685a7a7ecd6febb161a60dd8fe0a",
                    twin="5d5bdca1be0b9a6c012b93a8c8104761201bd70f7e08764fa67f2cfb26243723",
                ),
                File(
                    f"{_COIL2000_FOLDER}/ticeval2000.txt",
                    "26bd871a5fef8dc05b9505bc58af2a47479f3782db69fcd42e43b80da48b1f3d",
                    twin="fddb767ff809088e8046a4136abde77807de08e1e33871d013f72d7185431ed0",
                ),
                File(
                    f"{_COIL2000_FOLDER}/tictgts2000.txt",
                    "43233f77ce0c182b3ec6b175a6d9c53a0ca8e6d4a5d76e01d8165935d43d7e4b",
                    twin="0d15ce4120d397c0315d6c00ba29c5e59463afd9fff720d175a376a363ecb9cd",
                ),
            ),
            parse=read_coil2000,
            rows=9822,
            sha256="1eba56f2c48a8ff7acb24e43c6d24a81436c0a7f37dd50ea82cfed2e54b09db2",
            origin=Uci(125, "insurance+company+benchmark+coil+2000"),
            note="both parts together; MOSTYPE and MOSHOOFD are codes and taken as nominal",
        ),
    ),
)


# Ionosphere (UCI 52): radar returns that show structure in the ionosphere (g) or none (b).

_IONOSPHERE_COLUMNS = (*(f"a{i}" for i in range(1, 35)), "class")


IONOSPHERE = Entry(
    name="ionosphere",
    title="Ionosphere",
    task="binary",
    target="class",
    columns=34,
    classes=2,
    licence="CC BY 4.0 (UCI)",
    use="opportunity",
    sources=(
        Source(
            files=(
                File(
                    "ionosphere/ionosphere.data",
                    "46d52186b84e20be52918adb93e8fb9926b34795ff7504c24350ae0616a04bbd",
                    twin="b9cabd8b2ecc1cdbe84dff147d5f79cb059d1511f232d4855c9f226f2e71c057",
                ),
            ),
            parse=partial(csv_table, names=_IONOSPHERE_COLUMNS),
            rows=351,
            sha256="6619ac354fae4ffcdceed580a52a29fed5bd4352919c19323d3e8c4edf552a1c",
            origin=Uci(52, "ionosphere"),
        ),
    ),
)


# Parkinsons Telemonitoring (UCI 189): a severity score from measures of the voice.


def read_parkinsons(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the comma separated file, without the subject number and the other score."""
    from datasets.formats import read_csv

    return read_csv(files[0]).drop(columns=["subject#", "motor_UPDRS"])


PARKINSONS = Entry(
    name="parkinsons",
    title="Parkinsons Telemonitoring",
    task="regression",
    target="total_UPDRS",
    columns=19,
    classes=0,
    licence="CC BY 4.0 (UCI); asks for a citation of Tsanas et al. 2009",
    sources=(
        Source(
            files=(
                File(
                    "parkinsons_telemonitoring/parkinsons_updrs.data",
                    "f2c7d5025dec4e92e7feae367a5f7ccf58789a10ac6b54bdf15976c599f9dd39",
                ),
            ),
            parse=read_parkinsons,
            rows=5875,
            sha256="478243446e8b69947af4b95d6b338d9d6b859f9e47123277aaa24d2d218c35f3",
            origin=Uci(189, "parkinsons+telemonitoring"),
            note="rows are split at random, so the 42 subjects occur in all parts",
        ),
    ),
)


# Pen-Based Recognition of Handwritten Digits (UCI 81): a digit from eight points of its pen stroke.

_PENDIGITS_COLUMNS = (*(f"{axis}{point}" for point in range(1, 9) for axis in "xy"), "digit")


def read_pendigits(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the training part, then the test part; both are comma separated."""
    import pandas

    from datasets.formats import read_csv

    return pandas.concat([read_csv(file, _PENDIGITS_COLUMNS) for file in files], ignore_index=True)


PENDIGITS = Entry(
    name="pendigits",
    title="Pen-Based Recognition of Handwritten Digits",
    task="multiclass",
    target="digit",
    columns=16,
    classes=10,
    licence="CC BY 4.0 (UCI)",
    sources=(
        Source(
            files=(
                File(
                    "pendigits/pendigits.tra",
                    "e2b9eb9f0d0467e2b64a4816a3420edf2b8043447576f4b84337aba44a9f97d3",
                ),
                File(
                    "pendigits/pendigits.tes",
                    "8bd03229c5c5291fefe43e45465dd948d2645bf23328b9d993e0b777666b2015",
                ),
            ),
            parse=read_pendigits,
            rows=10992,
            sha256="004ac330c1587bcc40b13c1cf01b19ccc803084f165356fd7b6471a3f28247fe",
            origin=Uci(81, "pen+based+recognition+of+handwritten+digits"),
        ),
    ),
)


# Statlog Landsat Satellite (UCI 146): the soil class of a pixel from its neighbourhood in four bands.

_SATELLITE_COLUMNS = (*(f"{band}{pixel}" for pixel in range(1, 10) for band in "abcd"), "class")


def read_satellite(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the training part, then the test part; both are blank separated."""
    import pandas

    from datasets.formats import read_csv

    return pandas.concat([read_csv(file, _SATELLITE_COLUMNS, sep=" ") for file in files], ignore_index=True)


SATELLITE = Entry(
    name="satellite",
    title="Statlog Landsat Satellite",
    task="multiclass",
    target="class",
    columns=36,
    classes=6,
    licence="CC BY 4.0 (UCI)",
    sources=(
        Source(
            files=(
                File(
                    "statlog_landsat_satellite/sat.trn",
                    "e896dc88a960fa2404160fc4c3cb3dc53fcf4afd80ba920bf2d261bd42d12613",
                    twin="6da888aa398f4dd56a85bb7114f7206896a360b7af1d790450f64dbdb8493fc5",
                ),
                File(
                    "statlog_landsat_satellite/sat.tst",
                    "4b9167b8a92baafafed7c8809aef86d0683a5e685c19d98d119fa6974f0f2479",
                    twin="0045be0391420a35a69e8d2b0a4ff4b032a4aa03feebba0d89b9aa3e2d42c212",
                ),
            ),
            parse=read_satellite,
            rows=6435,
            sha256="a49308e1d232084328f3be189a3f7a9aaf114c13ba585c69ddc8a32ce5a933b9",
            origin=Uci(146, "statlog+landsat+satellite"),
        ),
    ),
)


# Satellite image as a regression on the class code (OpenML task 3007, data 294; the rows are UCI 146's).

SATIMAGE_CODE = Entry(
    name="satimage_code",
    title="Satellite image, class code",
    task="regression",
    target="class",
    columns=36,
    classes=0,
    licence="CC BY 4.0 (UCI)",
    sources=(
        Source(
            files=(
                File(
                    "openml_3007_satellite_image/sat.trn.txt",
                    "e896dc88a960fa2404160fc4c3cb3dc53fcf4afd80ba920bf2d261bd42d12613",
                    twin="6da888aa398f4dd56a85bb7114f7206896a360b7af1d790450f64dbdb8493fc5",
                ),
                File(
                    "openml_3007_satellite_image/sat.tst.txt",
                    "4b9167b8a92baafafed7c8809aef86d0683a5e685c19d98d119fa6974f0f2479",
                    twin="0045be0391420a35a69e8d2b0a4ff4b032a4aa03feebba0d89b9aa3e2d42c212",
                ),
            ),
            parse=read_satellite,
            rows=6435,
            sha256="da8c61f427c6c90dd9e2c0b4a252a3c0a46918622a44a449ce432cd4c71d8c6f",
            origin=Uci(146, "statlog+landsat+satellite"),
            note="training rows before test rows; the order in OpenML's file is not known",
        ),
    ),
)


# Connectionist Bench, sonar (UCI 151): a mine (M) or a rock (R), from the energy in 60 frequency bands.

_SONAR_COLUMNS = (*(f"band{i}" for i in range(1, 61)), "class")


SONAR = Entry(
    name="sonar",
    title="Connectionist Bench (Sonar, Mines vs. Rocks)",
    task="binary",
    target="class",
    columns=60,
    classes=2,
    licence="CC BY 4.0 (UCI)",
    use="opportunity",
    sources=(
        Source(
            files=(
                File(
                    "sonar/sonar.all-data",
                    "e90434cdbf00fcf93ffa911fe447ae25606979658e60f1d32e155c3b5240234d",
                    twin="9d5d57092020ff968568705889fc1b6bc917dac6ff53ace87693e2e2010f4d70",
                ),
            ),
            parse=partial(csv_table, names=_SONAR_COLUMNS),
            rows=208,
            sha256="a662352f38e8aed84851114b3ccd737749ebb875c9ab38f5d41206f17f3332ff",
            origin=Uci(151, "connectionist+bench+sonar+mines+vs+rocks"),
        ),
    ),
)


# Turkiye Student Evaluation (UCI 262): how difficult students found a course, from their answers.

TURKIYE = Entry(
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


# Wine quality (OpenML 287; UCI 186): the score of a Portuguese wine, red or white, from its chemistry.


def read_wine(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read red, then white, the order of OpenML's rows; both are separated by semicolons."""
    import pandas

    from datasets.formats import read_csv

    return pandas.concat([read_csv(file, sep=";") for file in files], ignore_index=True)


WINE = Entry(
    name="wine",
    title="Wine quality",
    task="regression",
    target="quality",
    columns=11,
    classes=0,
    licence="CC BY 4.0 (UCI)",
    sources=(
        Source(
            files=(
                File(
                    "openml_287_wine_quality/winequality-red.csv",
                    "4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e",
                ),
                File(
                    "openml_287_wine_quality/winequality-white.csv",
                    "76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836",
                ),
            ),
            parse=read_wine,
            rows=6497,
            sha256="c1a9743f98df6cb6e469959d70575207c97ef37b10a2aa8805ffea07bb23ed88",
            origin=Uci(186, "wine+quality"),
        ),
    ),
)
