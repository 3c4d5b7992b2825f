"""Satellite image as a regression on the class code (OpenML task 3007, data 294; the rows are UCI 146's)."""

from datasets.catalogue import Entry, File, Source
from datasets.origins import Uci
from datasets.sets.satellite import parse

ENTRY = Entry(
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
            parse=parse,
            rows=6435,
            sha256="da8c61f427c6c90dd9e2c0b4a252a3c0a46918622a44a449ce432cd4c71d8c6f",
            origin=Uci(146, "statlog+landsat+satellite"),
            note="training rows before test rows; the order in OpenML's file is not known",
        ),
    ),
)
