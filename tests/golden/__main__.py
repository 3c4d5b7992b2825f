"""Golden studies: what small studies record is held to kept digests. Not written anew without saying why.

Usage: python tests/golden [write|check|executors|targets] [STUDY ...]; `check` (the default) runs the studies and
compares, `write` keeps what they record now in studies.json, `executors` runs a study (`paper`) under every executor,
with 1, 2 and 3 workers, and compares. `targets` does it all, and the numeric part of the test suite, as other
processors would: code compiled for this very one, and NumPy without the instructions that it picks its loops by.
Without names, all studies.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[i]) for i in (2, 1)]

import studies  # noqa: E402 - needs what lies beside its folder

KEPT = studies.HERE / "studies.json"
ROOT = studies.HERE.parents[1]
_NUMERIC = (
    "parity/parity_posterior harness/gaussian_process harness/joint harness/screening harness/tails harness/log_ei"
)
NUMERIC = ["tests/test_one_answer.py"] + [  # tests of what is calculated
    f"tests/{name.replace('/', '/test_')}.py" for name in _NUMERIC.split()
]


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


def targets(chosen: list[str]) -> int:
    """Check and test as other processors would, and under every executor; the number of failures."""
    failed = []
    for label, settings in environments().items():
        environment = {**os.environ, **settings}
        for task in ([str(studies.HERE), "check", *chosen], ["-m", "pytest", "-n", "2", *NUMERIC]):
            print(f"--- {label}: {' '.join(task[:2])}", flush=True)
            if subprocess.run([sys.executable, *task], cwd=ROOT, env=environment).returncode:
                failed.append(f"{label}: {task[1]}")
    if executors([]):
        failed.append("executors")
    print(f"failed: {'; '.join(failed)}" if failed else "one answer on every target", flush=True)
    return len(failed)


def environments() -> dict[str, dict[str, str]]:
    """Return what to set, by what it stands for."""
    from llvmlite import binding
    from numpy._core._multiarray_umath import __cpu_dispatch__ as dispatched
    from numpy._core._multiarray_umath import __cpu_features__ as found

    features = ",".join(f"{'+' if there else '-'}{name}" for name, there in binding.get_host_cpu_features().items())
    without = " ".join(name for name in dispatched if found[name])
    return {
        "the default": {},
        "compiled for this processor": {"NUMBA_CPU_NAME": binding.get_host_cpu_name(), "NUMBA_CPU_FEATURES": features},
        f"NumPy without {without}": {"NPY_DISABLE_CPU_FEATURES": without},
    }


if __name__ == "__main__":
    command, *chosen = sys.argv[1:] or ["check"]
    commands = {"write": write, "check": check, "executors": executors, "targets": targets}
    unknown = sorted(set(chosen) - set(studies.studies()))
    if command not in commands or unknown:
        sys.exit(f"{__doc__}\nunknown: {', '.join(unknown) or command}; studies: {', '.join(studies.studies())}")
    sys.exit(1 if commands[command](chosen) else 0)
