"""SMS spam (Kaggle team-ai/spam-text-message-classification; UCI 228): spam or ham, from the message."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.catalogue import Entry, File, Source
from datasets.origins import Kaggle, Uci

if TYPE_CHECKING:
    import pandas

COLUMNS = ("Category", "Message")


def parse(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the comma separated file; one message holds line ends inside its quotes."""
    from datasets.formats import read_csv

    return read_csv(files[0], strip=False).astype("str")


def parse_uci(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read UCI's file: tab separated, no header, quotes are part of the text."""
    from datasets.formats import read_csv

    return read_csv(files[0], COLUMNS, sep="\t", quoted=False, strip=False).astype("str")


ENTRY = Entry(
    name="spam",
    title="SMS spam",
    task="binary",
    target="Category",
    columns=1,
    classes=2,
    licence="free with copyright notice (Almeida, Gomez Hidalgo); asks for a citation",
    sources=(
        Source(
            files=(
                File(
                    "sms_spam/SPAM text message 20170820 - Data.csv",
                    "1f0573aa3e3e8f5b37a753a454058a9ef9ebb981bcabeeb7ef43cdccedaecf29",
                ),
            ),
            parse=parse,
            rows=5572,
            sha256="f9d3d815e328b794978984e76fa00c039587ee74c5f71216182bfcc31b070472",
            origin=Kaggle("team-ai/spam-text-message-classification"),
        ),
        Source(
            files=(
                File(
                    "sms_spam/SMSSpamCollection",
                    "7d039a24a6083ed9ef0f806ebad56bbb976e3aeb8de05669173bfdc4996c239d",
                ),
            ),
            parse=parse_uci,
            rows=5574,
            sha256="4082fa7212d3c27f529de9f2fc7af1aa9b41e5e216c92d51b6df3117dab21ecc",
            origin=Uci(228, "sms+spam+collection"),
            note="the UCI file: 5574 messages, of which the Kaggle file merges three and damages three",
        ),
    ),
)
