"""`python -m analysis [report|figures|summary|all] results_dir=results out_dir=report`: records to figures and numbers.

`report` makes one page of everything, report.html, and the same as report.md; `all` the figures and a plain summary.
`density` compares replay settings with live training, `engines` surrogates and fits with the default: there results_dir
holds one folder of records per setting. `costs` draws F2 and F8 from the records of `python -m tabular_cache costs`,
and F9 from runs under several cost models. `claims` holds the paper's claims against the records, `budgets` writes
the minimal budget of every problem, `fronts` draws F1 and F7 from the fronts that `python -m harness fronts=true`
keeps, and `sensitivities` asks whether a claim's verdict depends on a setting (one folder of records per setting).
`best` tells the best configuration found on each data set; `tables` draws the measured tables; `utilities` ranks
utilities and cost rules together (study=utilities), with the time that the optimizer itself takes. `censored` draws C1
to C3 and writes their tables from the records of `python -m tabular_cache censored` and of
`python -m harness.configurator`.
"""

import sys
from collections.abc import Sequence

from analysis import commands
from analysis.commands import USAGE, options_told, parse
from harness.cli import run_cli, wants_help


def main(argv: Sequence[str] | None = None) -> int:
    """Make what the arguments ask for; exit code 3 when a figure could not be drawn from these records.

    `report` says on its page what could not be made, and exits with 0.
    """
    argv = sys.argv[1:] if argv is None else argv
    if wants_help(argv):
        print(f"{(__doc__ or '').strip()}\n\n{USAGE}\n{options_told()}")
        return 0
    arguments = parse(argv)
    from analysis.statistics import resampling  # after the arguments: pandas and matplotlib take a second to import

    with resampling(arguments.options["bootstrap"]):
        return int(getattr(commands, f"do_{arguments.command}")(arguments))


if __name__ == "__main__":
    run_cli(main)
