"""`python -m analysis.opportunity [branin|svm|network|pictures ...] [seeds=10] [evaluations=30] [out_dir=report]`.

Every run is kept in `out_dir`/opportunity as soon as it is over: a call after an interruption, or for more seeds, does
what is missing. Runs of other settings lie in folders of their own.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.markdown import table
from analysis.opportunity import CANDIDATES
from analysis.opportunity.branin import DEADLINE_S, Branin
from analysis.opportunity.timed import MOST, Timed, sequences, summary
from analysis.plotting import Drawn
from analysis.scope import plural
from datasets.errors import BadInput
from datasets.files import write_atomically
from harness.cli import run_cli, wants_help
from harness.cost_models import Oracle
from harness.cost_models.gp import GaussianProcessCost
from harness.errors import writable

KEPT = "opportunity"
PARTS = ("branin", "svm", "network", "pictures")
SVM_SETS = ("ionosphere", "w1a", "australian", "sonar")
PLANNED = (
    "MCMS is the harness's own (harness/acquisitions/README.md): at most 10 evaluations ahead, in the time that these "
    "would take by EI per second, where the paper's goes on to the deadline."
)
PUBLISHED = {  # test error in percent (Snoek et al. 2011)
    "EI": (13.7, 2.61, 32.0, 13.8), "EI/s": (9.40, 2.20, 30.0, 13.0), "MCMS": (10.4, 2.36, 30.8, 12.8),
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts named (all, if none is) and write one page and the sequences of each."""
    argv = sys.argv[1:] if argv is None else argv
    if wants_help(argv):
        print((__doc__ or "").strip())
        return 0
    parts, settings = [], {"seeds": "10", "evaluations": "30", "out_dir": "report"}
    for argument in argv:
        key, equals, value = argument.partition("=")
        if not equals and key in PARTS:
            parts.append(key)
        elif equals and key in settings and value:
            settings[key] = value
        else:
            raise BadInput(f"cannot read {argument!r}; allowed: {', '.join(PARTS)}, seeds=, evaluations=, out_dir=")
    for name in ("seeds", "evaluations"):
        if not settings[name].isdecimal() or int(settings[name]) < 1:
            raise BadInput(f"{name} must be a whole number >= 1, got {settings[name]}")
    out, (seeds, evaluations) = Path(settings["out_dir"]), (int(settings[k]) for k in ("seeds", "evaluations"))
    if evaluations > MOST:
        raise BadInput(f"evaluations must be at most {MOST}, which is where every run ends, got {evaluations}")
    writable("out_dir", out)
    for part in parts or PARTS:
        if part == "pictures":
            from analysis.opportunity.pictures import draw

            print(*draw(out).paths, sep="\n")
            continue
        path = out / f"opportunity_{part}.md"
        text, drawn = _branin(seeds, out) if part == "branin" else _learners(part, seeds, evaluations, out)
        write_atomically(path, text.encode())
        print(path, *drawn.paths, sep="\n")
    return 0


def _branin(seeds: int, out: Path) -> tuple[str, Drawn]:
    from analysis.opportunity.figures import draw_branin

    found = sequences(Branin, Oracle, DEADLINE_S, range(seeds), 2, out / KEPT / "branin", {"candidates": CANDIDATES})
    _save(out, "branin", found)
    rows = [{"method": name, **summary(runs)} for name, runs in found.items()]
    text = (
        f"# Branin-Hoo, deadline {DEADLINE_S:g} s\n\nHalf the space (x1 > 7.5) takes 10 s, the other 1 s; known. "
        f"{plural(seeds, 'seed')}, 2 random points first; means ± standard errors. {PLANNED}\n\n"
        f"{table(pd.DataFrame(rows))}\n"
    )
    return text, draw_branin(found, out)


def _learners(part: str, seeds: int, evaluations: int, out: Path) -> tuple[str, Drawn]:
    from analysis.opportunity.figures import draw_learners

    found: dict[str, dict[str, list[Timed]]] = {}
    deadlines: dict[str, float] = {}
    lines: list[dict[str, object]] = []
    for number, name in enumerate(SVM_SETS if part == "svm" else ("digits",)):
        deadlines[name], found[name] = _learner(part, name, seeds, evaluations, out)
        for method, runs in found[name].items():
            row: dict[str, object] = {"data set": name, "deadline (s)": deadlines[name], "method": method}
            row |= summary(runs)
            lines.append({**row, "published (%)": PUBLISHED[method][number]} if part == "svm" else row)
    rule = (
        f"The deadline is {evaluations} times the median CPU seconds of 12 random configurations on this machine, so "
        f"that EI, which does not look at cost, gets about {evaluations} evaluations unless it prefers dear ones; the "
        "paper's deadlines are in seconds of its own machines."
    )
    capped = sum(run.capped for of_set in found.values() for runs in of_set.values() for run in runs)
    ended = f" {plural(capped, 'run')} made the most evaluations allowed, {MOST}, in time." if capped else ""
    text = (
        f"# {'Two-kernel SVM' if part == 'svm' else 'Pretrained network on digits'}\n\nThe lowest error in percent "
        "seen on the held-out half of the rows, which is what is minimised. "
        f"{rule} {plural(seeds, 'split')}, 3 random points first; means ± standard errors.{ended} {PLANNED}\n\n"
        f"{table(pd.DataFrame(lines))}\n"
    )
    return text, draw_learners(part, found, deadlines, out)


def _learner(part: str, name: str, seeds: int, evaluations: int, out: Path) -> tuple[float, dict[str, list[Timed]]]:
    """Return the deadline and the runs on one data set; what `out` keeps of an earlier call is taken from there."""
    from analysis.opportunity.learners import TRAININGS, MultipleKernelSvm, PretrainedNetwork, deadline_s
    from analysis.opportunity.sources import split

    kind = MultipleKernelSvm if part == "svm" else PretrainedNetwork
    folder = out / KEPT / f"{part}-{name}-{evaluations}-{TRAININGS}"
    path = folder / "deadline.txt"  # measured once, so that all runs have the same
    if not path.is_file():
        write_atomically(path, f"{deadline_s(kind(split(name, 0), 0), evaluations)!r}\n".encode())
    tau, space = float(path.read_text()), kind.space
    found = sequences(
        lambda seed: kind(split(name, seed), seed),
        lambda: GaussianProcessCost(space=space),
        tau,
        range(seeds),
        3,
        folder,
        {"learner": kind.__name__, "data": name, "trainings": TRAININGS, "candidates": CANDIDATES},
    )
    _save(out, f"{part}_{name}", found)
    return tau, found


def _save(out: Path, name: str, found: dict[str, list[Timed]]) -> None:
    """Write every run's sequence: method, seed, step, error, the best so far, seconds, when it ended, if in time, x."""
    parts = []
    for method, runs in found.items():
        for seed, one in enumerate(runs):
            frame = pd.DataFrame({"error": one.errors, "best": np.fmin.accumulate(one.errors), "cost_s": one.cost_s})
            frame["ended_s"], frame["in_time"] = one.cost_s.cumsum(), np.arange(len(frame)) < one.done
            for k, x in enumerate(one.X.T):
                frame[f"x{k + 1}"] = x
            parts.append(frame.rename_axis("step").reset_index().assign(method=method, seed=seed))
    text = pd.concat(parts).to_csv(index=False, float_format="%.6g", lineterminator="\n")
    write_atomically(out / f"opportunity_{name}_runs.csv", text.encode())


if __name__ == "__main__":
    run_cli(main)
