"""Command line of the tables: `python -m tabular_cache COMMAND [setting=value ...]`."""

import sys

from datasets.errors import BadInput
from harness.cli import run_cli, wants_help
from harness.config import CONFIGS, compose_config

USAGE = """usage: python -m tabular_cache COMMAND [dataset=[a,b]] [pipeline=[c]] [setting=value ...]

build         measure: live trainings to tables       info          the table of problems
plan          decide the stages by which tables grow  left          what is left of them, in core-hours
grow          measure stage by stage, in parts: goes on where it was; hours=2 for one sitting
audit         train a random sample again             confirm       train what the runs of results_dir chose
identify      give tables measured before there were identities of data theirs, confirmed by hash or trainings
truth         live runs of results_dir to the shipped ones that `python -m analysis density` compares with
costs         how well the cost models predict        significance  which features and ridge a linear one should have
censored      treatments of capped and timed-out costs
emulator      how well evaluator=surface predicts configurations it has not seen"""
_TABLES = ("build", "plan", "grow", "left", "audit", "identify", "info", "confirm", "truth")
COMMANDS = (*_TABLES, "costs", "significance", "censored", "emulator")


def main() -> int:
    """Run one command; returns the exit code."""
    name, *overrides = sys.argv[1:] or [""]
    if wants_help([name]):
        print(USAGE)
        return 0
    if name not in COMMANDS:
        raise BadInput(f"unknown command {name!r}; allowed: {', '.join(COMMANDS)}")
    config = name if name in ("costs", "censored") else "tables"
    if wants_help(overrides):
        print(f"{USAGE}\n\n{(CONFIGS / f'{config}.yaml').read_text()}", end="")
        return 0
    from tabular_cache import commands

    code: int = getattr(commands, name)(commands.Call(compose_config(config, overrides), overrides))
    return code


if __name__ == "__main__":
    run_cli(main)
