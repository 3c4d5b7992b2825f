"""`python -m analysis.papers.snoek2011 [branin|shortcuts|svm|network|pictures ...] [seeds=20] [out_dir=report]`.

Deadlines of the learners: evaluations=N mean evaluations (30 for svm, 10 for network, if not set). Every run is kept in
`out_dir`/opportunity as soon as it is over: a call after an interruption, or for more seeds, does what is missing. Runs
of other settings lie in folders of their own. `pictures` draws `analysis.papers.lecture`.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator, NullLocator

from analysis.captions import markdown_table, plural, write_csv
from analysis.papers.snoek2011 import problems
from analysis.papers.snoek2011.problems import CANDIDATES, DEADLINE_S, MINIMUM, TRAININGS, Branin, branin, seconds
from analysis.plotting import BLACK, PURPLE, RED, Drawn, colour_of, new_figure, place_labels, save, style
from analysis.statistics import over_datasets
from analysis.traces import at_budgets, incumbents
from datasets.errors import BadInput
from datasets.files import write_atomically
from harness.acquisitions import CostRule, Utility
from harness.acquisitions.cost_rules import Ignore, Power
from harness.acquisitions.ei import ExpectedImprovement
from harness.acquisitions.rollouts import MonteCarloMultiStep
from harness.cli import run_cli, wants_help
from harness.cost_models import CostModel, Oracle
from harness.cost_models.gp import GaussianProcessCost
from harness.errors import writable
from harness.grid import COST_SD, ENGINE, LOOK_AHEAD
from harness.loop import run
from harness.optimizer import Optimizer
from harness.problem import Problem
from harness.sealed import spec_hash
from harness.surrogates.gp import GaussianProcess

# EI, EI per second and MCMS on one problem until a deadline, and what they reached.

Method = Callable[[], tuple[Utility, CostRule]]
METHODS: dict[str, Method] = {
    "EI": lambda: (ExpectedImprovement(), Ignore()),
    "EI/s": lambda: (ExpectedImprovement(), Power(1.0)),
    "MCMS": lambda: (MonteCarloMultiStep.published(), Ignore()),
}
WITH_SHORTCUT: dict[str, Method] = {  # what each shortcut does, taken alone
    "MCMS": METHODS["MCMS"],
    "scoring the 20 best": lambda: (MonteCarloMultiStep.published(shortlist=20), Ignore()),
    "going on with the 100 best": lambda: (MonteCarloMultiStep.published(pool=100), Ignore()),
    "10 evaluations ahead": lambda: (MonteCarloMultiStep.published(steps=10), Ignore()),
    "in the time of 10 by EI/s": lambda: (MonteCarloMultiStep.published(steps=10, planned=True), Ignore()),
    "no overrun": lambda: (MonteCarloMultiStep.published(overrun=False), Ignore()),
    "128 paths": lambda: (MonteCarloMultiStep.published(paths=128), Ignore()),
    "utility=mcms (all, no overrun)": lambda: (MonteCarloMultiStep(), Ignore()),
}
MOST = 400  # evaluations, whatever the deadline


@dataclass(frozen=True)
class Timed:
    """One run: errors and seconds of the evaluations, of which the first `done` end within the deadline; X: where."""

    errors: Float[np.ndarray, " t"]
    cost_s: Float[np.ndarray, " t"]
    done: int
    X: Float[np.ndarray, "t d"]

    def best_at(self, seconds: Float[np.ndarray, " s"]) -> Float[np.ndarray, " s"]:
        """Return the lowest error found by each time, a step function; NaN before the first evaluation has ended."""
        return at_budgets(incumbents(self.errors[None]), self.cost_s[None], seconds[None])[0]

    @property
    def best(self) -> float:
        """The lowest error found in time; NaN if nothing was."""
        return float(np.nanmin(self.errors[: self.done])) if self.done else float("nan")

    @property
    def best_begun(self) -> float:
        """The lowest error found by the evaluations that began in time, of which the last may end late."""
        return float(np.nanmin(self.errors[: self.done + 1]))

    @property
    def seconds(self) -> float:
        """The mean seconds of an evaluation in time; NaN if there is none."""
        return float(self.cost_s[: self.done].mean()) if self.done else float("nan")


@dataclass(frozen=True)
class Experiment:
    """Runs of every method on one problem: `make` opens it for a seed; the initial design counts in time.

    about: what else makes the runs what they are, such as the problem's settings.
    """

    make: Callable[[int], Problem]
    cost_model: Callable[[], CostModel]
    deadline_s: float
    n_initial: int
    about: Mapping[str, object]
    methods: Mapping[str, Method] = field(default_factory=lambda: METHODS)

    def settings(self) -> dict[str, object]:
        """Return all that determines the runs, but for the seed, as plain values."""
        methods = {name: [_described(part) for part in make()] for name, make in self.methods.items()}
        own = {"deadline_s": self.deadline_s, "n_initial": self.n_initial, "evaluations": MOST, "engine": ENGINE}
        models = {"surrogate": GaussianProcess.__name__, "cost_model": type(self.cost_model()).__name__}
        return {"methods": methods, **models, **own, "about": dict(self.about)}

    def run(self, name: str, seed: int) -> pd.DataFrame:
        """Run a method, and return its evaluations: error, cost_s, x0, x1, ..."""
        utility, rule = self.methods[name]()
        optimizer = Optimizer(
            GaussianProcess(), self.cost_model(), utility, rule, iterations=MOST, n_initial=self.n_initial,
            tau=self.deadline_s, seed=seed,
        )  # fmt: skip
        problem = self.make(seed)
        trace = run(problem, optimizer, seed, MOST, self.n_initial, self.deadline_s).columns
        x = {f"x{k}": trace[parameter] for k, parameter in enumerate(problem.space.names)}
        return pd.DataFrame({"error": trace["error"], "cost_s": trace["cost_s"], **x}, dtype=float)

    def sequences(self, seeds: Sequence[int], folder: Path) -> dict[str, list[Timed]]:
        """Return each method's runs, one per seed; an evaluation that ends after the deadline does not count.

        In a folder of `folder` named by the hash of the settings, every run is kept as soon as it is over, to the last
        digit, and read if it is there.
        """
        spec = self.settings()
        folder = folder / spec_hash(spec)
        write_atomically(folder / "spec.json", f"{json.dumps(spec, indent=1, sort_keys=True)}\n".encode())
        found: dict[str, list[Timed]] = {name: [] for name in self.methods}
        for seed in seeds:  # method by method within a seed, so that what an interruption leaves is balanced
            for name in self.methods:
                path = folder / f"{_file_name(name)}-{seed}.csv"
                if not path.is_file():
                    write_csv(self.run(name, seed), path, digits=17)
                error, cost_s, *X = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2).T
                done = int((np.cumsum(cost_s) <= self.deadline_s + 1e-9).sum())
                found[name].append(Timed(error, cost_s, done, np.array(X).T))
        return found


def _file_name(method: str) -> str:
    return re.sub(r"[^\w=,()-]", "_", method.replace("/", "_per_"))


def _described(part: Utility | CostRule) -> dict[str, object]:
    """Return class and settings of a part of a method."""
    version = {"look_ahead": LOOK_AHEAD} if getattr(part, "looks_ahead", False) else {}
    if getattr(part, "weighs_cost_sd", False):
        version["cost_sd"] = COST_SD
    own = {k: v for k, v in vars(part).items() if not k.startswith("_")}
    return {"class": type(part).__name__, **own, **version}


def summary(runs: Sequence[Timed]) -> dict[str, str]:
    """Return means with standard errors over seeds: evaluations in time, seconds of each, lowest error.

    For one seed, its own numbers. Runs without an evaluation in time have neither seconds nor error: the means are of
    the others, and how many there were is said.
    """

    def shown(values: Sequence[float]) -> str:
        x = pd.Series(values, dtype=float)
        none = f" ({int(x.isna().sum())} of {len(x)} runs had none in time)" if x.isna().any() else ""
        if x.isna().all():
            return "none in time"
        error = f" ± {x.std() / np.sqrt(x.count()):.2g}" if x.count() > 1 else ""
        return f"{float(x.mean()):.4g}{error}{none}"

    return {
        "evaluations": shown([r.done for r in runs]),
        "seconds each": shown([r.seconds for r in runs]),
        "best": shown([r.best for r in runs]),
        "best, the last counted": shown([r.best_begun for r in runs]),
    }


def table(found: Mapping[str, Sequence[Timed]], reference: str) -> list[dict[str, str]]:
    """Return one row per method: its `summary`, and its best minus the reference's, paired, with a 95 % t interval
    over seeds.
    """
    best = pd.DataFrame({name: [run.best for run in runs] for name, runs in found.items()})
    off = over_datasets(best.sub(best[reference], axis=0).to_numpy(dtype=float), np.arange(len(best)))
    rows = []
    for (name, runs), value, low, high in zip(found.items(), *off, strict=True):
        interval = "" if np.isnan(low + high) else f" [{low:.2g}, {high:.2g}]"
        against = "" if name == reference else f"{value:+.2g}{interval}"
        rows.append({"method": name, **summary(runs), f"minus {reference}": against})
    return rows


KEPT = "opportunity"
PARTS = ("branin", "shortcuts", "svm", "network", "pictures")
Files = tuple[Path, ...]
TITLES = {"svm": "Two-kernel SVM", "network": "Pretrained network on digits"}
ERRORS = {
    "svm": f"{problems.FOLDS}-fold cross-validation error",
    "network": "error on the half of the rows held out for validation",
}
BRANIN_INITIAL = 5  # random points before the first choice, our reading
EVALUATIONS = {"svm": 30, "network": 10}  # that the deadline has room for, on average
PLANNED = (
    "MCMS as published: every candidate is scored, paths go on to the deadline with the best of all candidates, and an "
    "evaluation that begins in time counts in them. In the results what ends in time counts (best), or what begins in "
    "time (the last counted). minus: paired by seed, mean and 95 % interval."
)
PUBLISHED = {  # lowest cross-validation error in percent (Snoek et al. 2011), from small to large
    "sonar": {"EI": 13.8, "EI/s": 13.0, "MCMS": 12.8},
    "ionosphere": {"EI": 13.7, "EI/s": 9.40, "MCMS": 10.4},
    "australian": {"EI": 32.0, "EI/s": 30.0, "MCMS": 30.8},
    "w1a": {"EI": 2.61, "EI/s": 2.20, "MCMS": 2.36},
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts named (all, if none is) and write one page and the sequences of each."""
    argv = sys.argv[1:] if argv is None else argv
    if wants_help(argv):
        print((__doc__ or "").strip())
        return 0
    parts = [argument for argument in argv if argument in PARTS]
    settings = {"seeds": "20", "evaluations": "", "out_dir": "report"}
    for argument in argv:
        key, _, value = argument.partition("=")
        if key in settings and value:
            settings[key] = value
        elif argument not in PARTS:
            raise BadInput(f"cannot read {argument!r}; allowed: {', '.join(PARTS)}, seeds=, evaluations=, out_dir=")
    for name, most in (("seeds", None), ("evaluations", MOST)):
        if name == "evaluations" and not settings[name]:
            continue
        if not settings[name].isdecimal() or not 1 <= int(settings[name]) <= (most or np.inf):
            limit = f"from 1 to {most}" if most else ">= 1"
            raise BadInput(f"{name} must be a whole number {limit}, got {settings[name]}")
    out, seeds = Path(settings["out_dir"]), int(settings["seeds"])
    writable("out_dir", out)
    for part in parts or PARTS:
        if part == "pictures":
            from analysis.papers import lecture

            print(*lecture.draw_pictures(out).paths, sep="\n")
            continue
        path, files = out / f"opportunity_{part}.md", Files()
        if part == "shortcuts":
            text = _shortcuts(seeds, out)
        elif part == "branin":
            text, files = _branin(seeds, out)
        else:
            text, files = _learners(part, seeds, int(settings["evaluations"] or EVALUATIONS[part]), out)
        write_atomically(path, text.encode())
        print(path, *files, sep="\n")
    return 0


def _on_branin(methods: Mapping[str, Method], seeds: int, out: Path) -> dict[str, list[Timed]]:
    experiment = Experiment(Branin, Oracle, DEADLINE_S, BRANIN_INITIAL, {"candidates": CANDIDATES, "dear": "x2 < 2.5"},
                            methods)  # fmt: skip
    return experiment.sequences(range(seeds), out / KEPT / "branin")


def _branin(seeds: int, out: Path) -> tuple[str, Files]:
    found = _on_branin(METHODS, seeds, out)
    _save(out, "branin", found)
    text = (
        f"# Branin-Hoo, deadline {DEADLINE_S:g} s\n\nThe half x2 < 2.5 of the space takes 10 s, the other 1 s; known. "
        f"{plural(seeds, 'seed')}, {BRANIN_INITIAL} random points first; means ± standard errors. {PLANNED}\n\n"
        f"{markdown_table(pd.DataFrame(table(found, 'EI/s')))}\n"
    )
    return text, tuple(draw_branin(found, out).paths)


def _shortcuts(seeds: int, out: Path) -> str:
    found = _on_branin(WITH_SHORTCUT, seeds, out)
    _save(out, "shortcuts", found)
    rows = table(found, "MCMS")
    return (
        "# What MCMS's shortcuts do, on Branin-Hoo\n\nEach shortcut of the published form taken alone, and all that "
        f"`utility=mcms` takes. {plural(seeds, 'seed')}, {BRANIN_INITIAL} random points first; means ± standard "
        f"errors; minus: paired by seed, mean and 95 % interval.\n\n{markdown_table(pd.DataFrame(rows))}\n"
    )


def _learners(part: str, seeds: int, evaluations: int, out: Path) -> tuple[str, Files]:
    found: dict[str, dict[str, list[Timed]]] = {}
    deadlines: dict[str, float] = {}
    lines: list[dict[str, object]] = []
    for name in PUBLISHED if part == "svm" else (problems.DIGITS,):
        deadlines[name], found[name] = _learner(part, name, seeds, evaluations, out)
        for row in table(found[name], "EI/s"):
            line: dict[str, object] = {"data set": name, "deadline (s)": deadlines[name], **row}
            lines.append({**line, "published (%)": PUBLISHED[name][row["method"]]} if part == "svm" else line)
    every = [run for of_set in found.values() for runs in of_set.values() for run in runs]
    capped = sum(run.done == len(run.errors) >= MOST for run in every)
    ended = f" {plural(capped, 'run')} made the most evaluations allowed, {MOST}, in time." if capped else ""
    text = (
        f"# {TITLES[part]}\n\nThe lowest {ERRORS[part]} in percent, which is what is minimised. "
        f"The deadline is {evaluations} times the mean CPU seconds of 12 random configurations on this machine; the "
        f"paper's deadlines are in seconds of its own machines. {plural(seeds, 'seed')}, 3 random points first; "
        f"means ± standard errors.{ended} {PLANNED}\n\n{markdown_table(pd.DataFrame(lines))}\n"
    )
    return text, tuple(draw_learners(part, found, deadlines, out).paths)


def _learner(part: str, name: str, seeds: int, evaluations: int, out: Path) -> tuple[float, dict[str, list[Timed]]]:
    """Return the deadline and the runs on one data set; what `out` keeps of an earlier call is read there."""
    kind = problems.MultipleKernelSvm if part == "svm" else problems.PretrainedNetwork
    folder = out / KEPT / f"{part}-{name}-{evaluations}-{TRAININGS}"
    path = folder / "deadline.txt"  # measured once, so that all runs have the same
    if not path.is_file():
        deadline = problems.deadline_s(kind(problems.rows(name), 0), evaluations)
        write_atomically(path, f"{deadline!r}\n".encode())
    about = {"learner": kind.__name__, "data": name, "trainings": TRAININGS, "candidates": CANDIDATES}
    data = problems.rows(name)
    experiment = Experiment(
        lambda seed: kind(data, seed),
        lambda: GaussianProcessCost(space=kind.space),
        float(path.read_text()),
        3,
        about,
    )
    found = experiment.sequences(range(seeds), folder)
    _save(out, f"{part}_{name}", found)
    return experiment.deadline_s, found


def _save(out: Path, name: str, found: dict[str, list[Timed]]) -> None:
    """Write every run's sequence: step, error, the best so far, seconds, when it ended, if in time, x, method, seed."""
    parts = []
    for method, runs in found.items():
        for seed, one in enumerate(runs):
            columns: dict[str, Any] = {"error": one.errors, "best": np.fmin.accumulate(one.errors)}
            columns |= {"cost_s": one.cost_s, "ended_s": one.cost_s.cumsum()}
            columns |= {"in_time": np.arange(len(one.errors)) < one.done}
            columns |= {f"x{k}": x for k, x in enumerate(one.X.T, start=1)}
            parts.append(pd.DataFrame(columns).rename_axis("step").reset_index().assign(method=method, seed=seed))
    write_csv(pd.concat(parts), out / f"opportunity_{name}_runs.csv")


# Pictures of the experiments: where on Branin-Hoo each method evaluates, and the best error against time.

COLOURS = {"EI": BLACK, "EI/s": colour_of("eipu"), "MCMS": PURPLE}  # as in the other figures
_TIMES = 240
_MINIMA = ((12.275, -np.pi), (2.275, np.pi), (2.475, 9.42478))


def draw_branin(found: Mapping[str, Sequence[Timed]], out_dir: Path) -> Drawn:
    """Draw `opportunity_branin`: the first seed's sequences on the function, and all seeds' regret against time."""
    caption = (
        f"Branin-Hoo with a deadline of {DEADLINE_S:g} s: an evaluation takes 10 s in the shaded half and 1 s in the "
        "other. Left: the evaluations of the first seed that end in time, numbered in their order, on contours of the "
        "function; crosses: its minima. Right: lowest value found so far above the minimum, mean and standard error "
        f"over {plural(len(next(iter(found.values()))), 'seed')}, from when every run has a value."
    )
    numbers = curves(found, DEADLINE_S)
    with style():
        figure, plots = new_figure(13.0, 3.6, caption)
        panels = plots.subplots(1, len(found) + 1)
        numbered = [_draw_sequence(ax, name, runs[0]) for ax, (name, runs) in zip(panels, found.items(), strict=False)]
        panels[0].set_ylabel("x2")
        _draw_curves(panels[-1], numbers.assign(value=numbers["value"] - MINIMUM))
        panels[-1].set(yscale="log", xlabel="seconds", ylabel="lowest value found - minimum")
        panels[-1].legend(fontsize=8)
        for ax, labels in zip(panels, numbered, strict=False):
            place_labels(ax, labels)
        return save(figure, "opportunity_branin", caption, numbers, out_dir)


def _draw_sequence(ax: Axes, method: str, one: Timed) -> list[Text]:
    """Draw a run's evaluations; return their numbers, still to be placed."""
    x1, x2 = np.meshgrid(np.linspace(0, 15, 200), np.linspace(-5, 10, 200))
    points = np.stack([x1, x2], axis=-1).reshape(-1, 2)
    value, dear = branin(points).reshape(x1.shape), seconds(points).reshape(x1.shape)
    ax.contourf(x1, x2, dear, levels=[5, 15], colors=["0.92"])
    ax.contour(x1, x2, np.log10(value - MINIMUM + 1.0), levels=8, cmap="viridis", linewidths=0.6)
    ax.plot(*np.transpose(_MINIMA), "x", color=RED, markersize=7)
    X = one.X[: one.done]
    ax.plot(X[:, 0], X[:, 1], "o", color=COLOURS[method], markersize=3)
    ax.set(xlim=(-0.3, 15.3), ylim=(-5.3, 10.3), xlabel="x1")
    ax.set_title(f"{method}: {one.done} evaluations", fontsize=9)
    ax.grid(visible=False)
    return [ax.text(a, b, f"{k + 1}", fontsize=6.5, color=COLOURS[method]) for k, (a, b) in enumerate(X)]


def draw_learners(
    part: str, found: Mapping[str, Mapping[str, Sequence[Timed]]], deadlines: Mapping[str, float], out_dir: Path
) -> Drawn:
    """Draw `opportunity_<part>`: what is minimised against time, one panel per data set."""
    seeds = max(len(runs) for methods in found.values() for runs in methods.values())
    caption = (
        f"{TITLES[part]}: lowest {ERRORS[part]} found so far, which is what is minimised, against the CPU seconds of "
        f"the evaluations, up to the deadline; mean and standard error over {plural(seeds, 'seed')}, from when every "
        "run has a value. Left out: what ends after the deadline."
    )
    numbers = pd.concat([curves(runs, deadlines[name]).assign(dataset=name) for name, runs in found.items()])
    with style():
        figure, plots = new_figure(3.4 * max(2, len(found)), 3.2, caption)
        panels = plots.subplots(1, len(found), squeeze=False)[0]
        for ax, name in zip(panels, found, strict=True):
            _draw_curves(ax, numbers[numbers["dataset"] == name])
            ax.set(xlabel="seconds", yscale="log")
            ax.yaxis.set(major_locator=MaxNLocator(6), major_formatter="{x:g}", minor_locator=NullLocator())
            ax.set_title(name, fontsize=9)
        panels[0].set_ylabel("cross-validation error (%)" if part == "svm" else "validation error (%)")
        panels[-1].legend(fontsize=8)
        return save(figure, f"opportunity_{part}", caption, numbers, out_dir)


def curves(found: Mapping[str, Sequence[Timed]], deadline_s: float) -> pd.DataFrame:
    """Return method, seconds, value (mean over the runs of the best so far), error (its standard error; 0 for one)."""
    at, parts = np.linspace(0.0, deadline_s, _TIMES + 1), []
    for method, runs in found.items():
        best = pd.DataFrame([one.best_at(at) for one in runs])
        columns = {"value": best.mean(skipna=False), "error": best.sem(skipna=False) if len(runs) > 1 else 0.0}
        parts.append(pd.DataFrame({"method": method, "seconds": at, **columns}).dropna())
    return pd.concat(parts, ignore_index=True)


def _draw_curves(ax: Axes, numbers: pd.DataFrame) -> None:
    for method, rows in numbers.groupby("method", sort=False):
        colour = COLOURS[str(method)]
        ax.step(rows["seconds"], rows["value"], where="post", color=colour, linewidth=1.3, label=str(method))
        low, high = rows["value"] - rows["error"], rows["value"] + rows["error"]
        ax.fill_between(rows["seconds"], low, high, step="post", color=colour, alpha=0.15, linewidth=0)


if __name__ == "__main__":
    run_cli(main)
