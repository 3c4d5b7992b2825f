"""Insurance Company Benchmark, CoIL 2000 (UCI 125): who holds a caravan insurance."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.catalogue import Entry, File, Source
from datasets.origins import Uci

if TYPE_CHECKING:
    import pandas


FOLDER = "insurance_company_benchmark_coil2000"
_NAMES = """
    MOSTYPE MAANTHUI MGEMOMV MGEMLEEF MOSHOOFD MGODRK MGODPR MGODOV MGODGE MRELGE MRELSA MRELOV MFALLEEN
    MFGEKIND MFWEKIND MOPLHOOG MOPLMIDD MOPLLAAG MBERHOOG MBERZELF MBERBOER MBERMIDD MBERARBG MBERARBO
    MSKA MSKB1 MSKB2 MSKC MSKD MHHUUR MHKOOP MAUT1 MAUT2 MAUT0 MZFONDS MZPART MINKM30 MINK3045 MINK4575
    MINK7512 MINK123M MINKGEM MKOOPKLA PWAPART PWABEDR PWALAND PPERSAUT PBESAUT PMOTSCO PVRAAUT PAANHANG
    PTRACTOR PWERKT PBROM PLEVEN PPERSONG PGEZONG PWAOREG PBRAND PZEILPL PPLEZIER PFIETS PINBOED
    PBYSTAND AWAPART AWABEDR AWALAND APERSAUT ABESAUT AMOTSCO AVRAAUT AAANHANG ATRACTOR AWERKT ABROM
    ALEVEN APERSONG AGEZONG AWAOREG ABRAND AZEILPL APLEZIER AFIETS AINBOED ABYSTAND
"""
INPUTS = tuple(_NAMES.split())
CODES = ("MOSTYPE", "MOSHOOFD")


def parse(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the training part and the evaluation part with its targets; the two type codes are nominal."""
    import pandas

    from datasets.formats import as_categories, read_csv

    train = read_csv(files[0], (*INPUTS, "CARAVAN"), sep="\t")
    evaluation = read_csv(files[1], INPUTS, sep="\t").assign(CARAVAN=read_csv(files[2], ["CARAVAN"])["CARAVAN"])
    frame = pandas.concat([train, evaluation], ignore_index=True)
    return as_categories(frame, CODES)


ENTRY = Entry(
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
                    f"{FOLDER}/ticdata2000.txt",
                    "4e967da7c4d1759b9f2ddbd39aace45af6a6685a7a7ecd6febb161a60dd8fe0a",
                    twin="5d5bdca1be0b9a6c012b93a8c8104761201bd70f7e08764fa67f2cfb26243723",
                ),
                File(
                    f"{FOLDER}/ticeval2000.txt",
                    "26bd871a5fef8dc05b9505bc58af2a47479f3782db69fcd42e43b80da48b1f3d",
                    twin="fddb767ff809088e8046a4136abde77807de08e1e33871d013f72d7185431ed0",
                ),
                File(
                    f"{FOLDER}/tictgts2000.txt",
                    "43233f77ce0c182b3ec6b175a6d9c53a0ca8e6d4a5d76e01d8165935d43d7e4b",
                    twin="0d15ce4120d397c0315d6c00ba29c5e59463afd9fff720d175a376a363ecb9cd",
                ),
            ),
            parse=parse,
            rows=9822,
            sha256="1eba56f2c48a8ff7acb24e43c6d24a81436c0a7f37dd50ea82cfed2e54b09db2",
            origin=Uci(125, "insurance+company+benchmark+coil+2000"),
            note="both parts together; MOSTYPE and MOSHOOFD are codes and taken as nominal",
        ),
    ),
)
