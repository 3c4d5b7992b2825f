"""Golden studies: what small studies record is held to kept digests. Not written anew without saying why.

Usage: python tests/golden [write|check|executors] [STUDY ...]; `check` (the default) runs the studies and compares,
`write` keeps what they record now in studies.json, `executors` runs one study under every executor and compares.
Without names, all studies.
"""

import json
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

import studies  # noqa: E402 - needs what lies beside its folder

KEPT = studies.HERE / "studies.json"


def kept() -> studies.Digests:
    """Return the digests that are kept."""
    found: studies.Digests = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return found


def write(chosen: list[str]) -> int:
    """Keep what the studies record."""
    found, begun = kept() if chosen else {}, time.monotonic()
    for name, digests in studies.digests(chosen or studies.studies()):
        print(f"{time.monotonic() - begun:5.0f} s {name}: {len(digests)} records", flush=True)
        found[name] = digests
        KEPT.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    return 0


def check(chosen: list[str]) -> int:
    """Say which records differ from what is kept; the number of studies that do."""
    expected, wrong = kept(), 0
    for name, digests in studies.digests(chosen or studies.studies()):
        other = sorted(
            record
            for record in expected.get(name, {}).keys() | digests.keys()
            if expected.get(name, {}).get(record) != digests.get(record)
        )
        wrong += bool(other)
        print(f"{name}: {f'{len(other)} of {len(digests)} records differ: {other}' if other else 'same'}", flush=True)
    return wrong


def executors(chosen: list[str]) -> int:
    """Say under which executors the records differ from what is kept; their number."""
    expected, wrong = kept(), 0
    for label, settings in studies.executors().items():
        for name, digests in studies.digests(chosen or ["paper"], settings):
            same = digests == expected.get(name)
            wrong += not same
            print(f"{label}: {name}: {'same' if same else 'differs'}", flush=True)
    return wrong


if __name__ == "__main__":
    command, *chosen = sys.argv[1:] or ["check"]
    commands = {"write": write, "check": check, "executors": executors}
    unknown = sorted(set(chosen) - set(studies.studies()))
    if command not in commands or unknown:
        sys.exit(f"{__doc__}\nunknown: {', '.join(unknown) or command}; studies: {', '.join(studies.studies())}")
    sys.exit(1 if commands[command](chosen) else 0)
