"""The data sets from the UCI repository, from abalone to wine."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.catalogue import Entry, File, Source
from datasets.download import Uci
from datasets.formats import as_categories, read_csv

if TYPE_CHECKING:
    import pandas

CC_BY = "CC BY 4.0 (UCI)"

# Abalone (UCI 1): the age of a shellfish, in rings, from its measures.
_ABALONE = "Sex Length Diameter Height Whole_weight Shucked_weight Viscera_weight Shell_weight Rings"

ABALONE = Entry("abalone", "Abalone", target="Rings", columns=8, classes=0, licence=CC_BY, sources=[Source(
    "abalone", [File("abalone.data", "de37cdcdcaaa50c309d514f248f7c2302a5f1f88c168905eba23fe2fbc78449f")],
    partial(read_csv, names=_ABALONE.split(), nominal=["Sex"]), rows=4177, origin=Uci(1, "abalone"),
    sha256="5513ea93d6c73064af1e3efa9654f3b150b9087bd0aac4c1d75881f0e4e56f5f",
)])  # fmt: skip

# Statlog, Australian credit approval (UCI 143): granted or not, from 14 attributes without names.
#
# Blank separated; categorical attributes come as codes and are taken as numbers.

_AUSTRALIAN = [*(f"A{i}" for i in range(1, 15)), "class"]

AUSTRALIAN = Entry("australian", "Statlog (Australian Credit Approval)", target="class", columns=14, classes=2,
    licence=CC_BY, use="opportunity", sources=[Source(
    "australian", [
        File("australian.dat.txt", "3abe5af151afa50b999a9ba21cbc884e80d80a4050b716cf88b34a2e6ecb731c",
             twin="ad7cd87fbb605230882af6afa462a4a9baf91f2ac3d08d146c251ed16ccf38be")],
    partial(read_csv, names=_AUSTRALIAN, sep=" "), rows=690, origin=Uci(143, "statlog+australian+credit+approval"),
    sha256="a8d0f31616e66becbf706dba87d52d395f18bf10e277f85f0010a7bfbb9d390c",
)])  # fmt: skip

# Bach Choral Harmony (UCI 298; OpenML task 14953?): the chord, from pitch classes, bass and meter.
_BACH = [f"V{i}" for i in range(1, 18)]
_BACH_FEWEST = 5
_BACH_NOTE = (
    "that OpenML task 14953 is this data set is about 75 % certain; "
    f"of 102 chord labels, those with fewer than {_BACH_FEWEST} rows form one class, 'rare'"
)


def read_bach(path: Path) -> "pandas.DataFrame":
    """Read the comma separated file, some of whose fields start with a blank; pool the rare chords."""
    frame = read_csv(path, names=_BACH, nominal=["V1", *(f"V{i}" for i in range(3, 16))])
    counts = frame["V17"].map(frame["V17"].value_counts())
    return frame.assign(V17=frame["V17"].where(counts >= _BACH_FEWEST, "rare"))


BACH = Entry("bach", "Bach Choral Harmony", target="V17", columns=16, classes=69, licence=CC_BY, sources=[Source(
    "openml_14953_BachChoralHarmony", [
        File("jsbach_chorals_harmony.data", "81554b251ca9183686b0aa207f214ea92fd48dbb73ef89fa1678a257d3a57457")],
    read_bach, rows=5665, origin=Uci(298, "bach+choral+harmony"),
    sha256="53e8c2deea2c9b27e7beee032cc50947508140a861abb99dbdd2480125c2ca55", mark="identity uncertain",
    note=_BACH_NOTE,
)])  # fmt: skip

# Insurance Company Benchmark, CoIL 2000 (UCI 125): who holds a caravan insurance.
_COIL2000 = """
    MOSTYPE MAANTHUI MGEMOMV MGEMLEEF MOSHOOFD MGODRK MGODPR MGODOV MGODGE MRELGE MRELSA MRELOV MFALLEEN
    MFGEKIND MFWEKIND MOPLHOOG MOPLMIDD MOPLLAAG MBERHOOG MBERZELF MBERBOER MBERMIDD MBERARBG MBERARBO
    MSKA MSKB1 MSKB2 MSKC MSKD MHHUUR MHKOOP MAUT1 MAUT2 MAUT0 MZFONDS MZPART MINKM30 MINK3045 MINK4575
    MINK7512 MINK123M MINKGEM MKOOPKLA PWAPART PWABEDR PWALAND PPERSAUT PBESAUT PMOTSCO PVRAAUT PAANHANG
    PTRACTOR PWERKT PBROM PLEVEN PPERSONG PGEZONG PWAOREG PBRAND PZEILPL PPLEZIER PFIETS PINBOED
    PBYSTAND AWAPART AWABEDR AWALAND APERSAUT ABESAUT AMOTSCO AVRAAUT AAANHANG ATRACTOR AWERKT ABROM
    ALEVEN APERSONG AGEZONG AWAOREG ABRAND AZEILPL APLEZIER AFIETS AINBOED ABYSTAND
"""


def read_coil2000(train: Path, evaluation: Path, targets: Path) -> "pandas.DataFrame":
    """Read the training part and the evaluation part with its targets; the two type codes are nominal."""
    import pandas

    first = read_csv(train, names=[*_COIL2000.split(), "CARAVAN"], sep="\t")
    second = read_csv(evaluation, names=_COIL2000.split(), sep="\t").join(read_csv(targets, names=["CARAVAN"]))
    return as_categories(pandas.concat([first, second], ignore_index=True), ["MOSTYPE", "MOSHOOFD"])


COIL2000 = Entry("coil2000", "Insurance Company Benchmark (CoIL 2000)", target="CARAVAN", columns=85, classes=2,
    licence="non-commercial research and education only (Sentient Machine Research)", sources=[Source(
    "insurance_company_benchmark_coil2000", [
        File("ticdata2000.txt", "4e967da7c4d1759b9f2ddbd39aace45af6a6685a7a7ecd6febb161a60dd8fe0a",
             twin="5d5bdca1be0b9a6c012b93a8c8104761201bd70f7e08764fa67f2cfb26243723"),
        File("ticeval2000.txt", "26bd871a5fef8dc05b9505bc58af2a47479f3782db69fcd42e43b80da48b1f3d",
             twin="fddb767ff809088e8046a4136abde77807de08e1e33871d013f72d7185431ed0"),
        File("tictgts2000.txt", "43233f77ce0c182b3ec6b175a6d9c53a0ca8e6d4a5d76e01d8165935d43d7e4b",
             twin="0d15ce4120d397c0315d6c00ba29c5e59463afd9fff720d175a376a363ecb9cd")],
    read_coil2000, rows=9822, origin=Uci(125, "insurance+company+benchmark+coil+2000"),
    sha256="1eba56f2c48a8ff7acb24e43c6d24a81436c0a7f37dd50ea82cfed2e54b09db2",
    note="both parts together; MOSTYPE and MOSHOOFD are codes and taken as nominal",
)])  # fmt: skip

# Ionosphere (UCI 52): radar returns that show structure in the ionosphere (g) or none (b).
_IONOSPHERE = [*(f"a{i}" for i in range(1, 35)), "class"]

IONOSPHERE = Entry("ionosphere", "Ionosphere", target="class", columns=34, classes=2, licence=CC_BY, use="opportunity",
    sources=[Source(
    "ionosphere", [
        File("ionosphere.data", "46d52186b84e20be52918adb93e8fb9926b34795ff7504c24350ae0616a04bbd",
             twin="b9cabd8b2ecc1cdbe84dff147d5f79cb059d1511f232d4855c9f226f2e71c057")],
    partial(read_csv, names=_IONOSPHERE), rows=351, origin=Uci(52, "ionosphere"),
    sha256="6619ac354fae4ffcdceed580a52a29fed5bd4352919c19323d3e8c4edf552a1c",
)])  # fmt: skip

# Parkinsons Telemonitoring (UCI 189): a severity score from measures of the voice.


def read_parkinsons(path: Path) -> "pandas.DataFrame":
    """Read the comma separated file, without the subject number and the other score."""
    return read_csv(path).drop(columns=["subject#", "motor_UPDRS"])


PARKINSONS = Entry("parkinsons", "Parkinsons Telemonitoring", target="total_UPDRS", columns=19, classes=0,
    licence="CC BY 4.0 (UCI); asks for a citation of Tsanas et al. 2009", sources=[Source(
    "parkinsons_telemonitoring", [
        File("parkinsons_updrs.data", "f2c7d5025dec4e92e7feae367a5f7ccf58789a10ac6b54bdf15976c599f9dd39")],
    read_parkinsons, rows=5875, origin=Uci(189, "parkinsons+telemonitoring"),
    sha256="478243446e8b69947af4b95d6b338d9d6b859f9e47123277aaa24d2d218c35f3",
    note="rows are split at random, so the 42 subjects occur in all parts",
)])  # fmt: skip

# Pen-Based Recognition of Handwritten Digits (UCI 81): a digit from eight points of its pen stroke.
_PENDIGITS = [*(f"{axis}{point}" for point in range(1, 9) for axis in "xy"), "digit"]

PENDIGITS = Entry("pendigits", "Pen-Based Recognition of Handwritten Digits", target="digit", columns=16, classes=10,
    licence=CC_BY, sources=[Source(
    "pendigits", [
        File("pendigits.tra", "e2b9eb9f0d0467e2b64a4816a3420edf2b8043447576f4b84337aba44a9f97d3"),
        File("pendigits.tes", "8bd03229c5c5291fefe43e45465dd948d2645bf23328b9d993e0b777666b2015")],
    partial(read_csv, names=_PENDIGITS), rows=10992, origin=Uci(81, "pen+based+recognition+of+handwritten+digits"),
    sha256="004ac330c1587bcc40b13c1cf01b19ccc803084f165356fd7b6471a3f28247fe",
)])  # fmt: skip

# Statlog Landsat Satellite (UCI 146): the soil class of a pixel from its neighbourhood in four bands.
_SATELLITE = [*(f"{band}{pixel}" for pixel in range(1, 10) for band in "abcd"), "class"]

SATELLITE = Entry("satellite", "Statlog Landsat Satellite", target="class", columns=36, classes=6, licence=CC_BY,
    sources=[Source(
    "statlog_landsat_satellite", [
        File("sat.trn", "e896dc88a960fa2404160fc4c3cb3dc53fcf4afd80ba920bf2d261bd42d12613",
             twin="6da888aa398f4dd56a85bb7114f7206896a360b7af1d790450f64dbdb8493fc5"),
        File("sat.tst", "4b9167b8a92baafafed7c8809aef86d0683a5e685c19d98d119fa6974f0f2479",
             twin="0045be0391420a35a69e8d2b0a4ff4b032a4aa03feebba0d89b9aa3e2d42c212")],
    partial(read_csv, names=_SATELLITE, sep=" "), rows=6435, origin=Uci(146, "statlog+landsat+satellite"),
    sha256="a49308e1d232084328f3be189a3f7a9aaf114c13ba585c69ddc8a32ce5a933b9",
)])  # fmt: skip

# Satellite image as a regression on the class code (OpenML task 3007, data 294; the rows are UCI 146's).
SATIMAGE_CODE = Entry("satimage_code", "Satellite image, class code", target="class", columns=36, classes=0,
    licence=CC_BY, sources=[Source(
    "openml_3007_satellite_image", [
        File("sat.trn.txt", "e896dc88a960fa2404160fc4c3cb3dc53fcf4afd80ba920bf2d261bd42d12613",
             twin="6da888aa398f4dd56a85bb7114f7206896a360b7af1d790450f64dbdb8493fc5"),
        File("sat.tst.txt", "4b9167b8a92baafafed7c8809aef86d0683a5e685c19d98d119fa6974f0f2479",
             twin="0045be0391420a35a69e8d2b0a4ff4b032a4aa03feebba0d89b9aa3e2d42c212")],
    partial(read_csv, names=_SATELLITE, sep=" "), rows=6435, origin=Uci(146, "statlog+landsat+satellite"),
    sha256="da8c61f427c6c90dd9e2c0b4a252a3c0a46918622a44a449ce432cd4c71d8c6f",
    note="training rows before test rows; the order in OpenML's file is not known",
)])  # fmt: skip

# Connectionist Bench, sonar (UCI 151): a mine (M) or a rock (R), from the energy in 60 frequency bands.
_SONAR = [*(f"band{i}" for i in range(1, 61)), "class"]

SONAR = Entry("sonar", "Connectionist Bench (Sonar, Mines vs. Rocks)", target="class", columns=60, classes=2,
    licence=CC_BY, use="opportunity", sources=[Source(
    "sonar", [
        File("sonar.all-data", "e90434cdbf00fcf93ffa911fe447ae25606979658e60f1d32e155c3b5240234d",
             twin="9d5d57092020ff968568705889fc1b6bc917dac6ff53ace87693e2e2010f4d70")],
    partial(read_csv, names=_SONAR), rows=208, origin=Uci(151, "connectionist+bench+sonar+mines+vs+rocks"),
    sha256="a662352f38e8aed84851114b3ccd737749ebb875c9ab38f5d41206f17f3332ff",
)])  # fmt: skip

# Turkiye Student Evaluation (UCI 262): how difficult students found a course, from their answers.
TURKIYE = Entry("turkiye", "Turkiye Student Evaluation", target="difficulty", columns=32, classes=5, licence=CC_BY,
    sources=[Source(
    "turkiye_student_evaluation", [
        File("turkiye-student-evaluation_generic.csv",
             "e5c4bf0f98af39adbc0bd23ddbc7ab1d5ffbcf028e7540a464ff6d725cb5f2eb")],
    read_csv, rows=5820, origin=Uci(262, "turkiye+student+evaluation"),
    sha256="7237c3c9185860c66ca2c268fd960739ce8eafd9331b24d97ef0b65edccc3415",
    note="UCI names no target; difficulty (1 to 5) is our reading",
)])  # fmt: skip

# Wine quality (OpenML 287; UCI 186): the score of a Portuguese wine, red then white as in OpenML, from its chemistry.
WINE = Entry("wine", "Wine quality", target="quality", columns=11, classes=0, licence=CC_BY, sources=[Source(
    "openml_287_wine_quality", [
        File("winequality-red.csv", "4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e"),
        File("winequality-white.csv", "76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836")],
    partial(read_csv, sep=";"), rows=6497, origin=Uci(186, "wine+quality"),
    sha256="c1a9743f98df6cb6e469959d70575207c97ef37b10a2aa8805ffea07bb23ed88",
)])  # fmt: skip
