"""The figures on made-up records of several completeness levels: their numbers, captions and files."""

import itertools
import xml.etree.ElementTree as ET
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from drawing import not_drawing
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from synthetic_records import Way, frame, percent_of_sums

import datasets
import pipelines
from analysis.equal_cost import PRICED, PRICES
from analysis.figures import front_figures, trace_figures
from analysis.figures.f3_f5 import effective_alpha
from analysis.plotting import Drawn, colour_of, new_figure, place_labels, save, style
from analysis.traces import collect
from datasets.errors import BadInput

ALL = len(datasets.names()) * len(pipelines.names())
FEW = [Way("ei"), Way("eipu"), Way("cei", lam=0.1)]
MORE = [
    Way("ei"),
    Way("eialpha", alpha=0.1),
    Way("eipu"),
    Way("cei", lam=0.1),
    Way("cei", lam=0.5),
    Way("eicool"),
]


@pytest.fixture(scope="module")
def least() -> pd.DataFrame:
    """One problem, one seed, two methods of each family."""
    return frame([("wind", "clean")], FEW, [0], 20)


@pytest.fixture(scope="module")
def partial() -> pd.DataFrame:
    """Three problems; CEI with lambda 0.5 on two of them only; failures; a run longer than the others."""
    grid = [("wind", "clean"), ("wind", "onehot"), ("hiva", "clean")]
    rows = frame(grid, MORE, [0, 1], 30, fail=0.1)
    return rows[~((rows["method"] == "cei(lam=0.5)") & (rows["dataset"] == "hiva"))]


@pytest.fixture(scope="module")
def drawn(least: pd.DataFrame, partial: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Drawn]:
    """The figures by level and name (F5 and F6 on one problem: see the other tests)."""
    out = {}
    for level, rows in (("least", least), ("partial", partial)):
        folder = tmp_path_factory.mktemp(level)
        for name in {"least": ["f3"], "partial": ["f3", "f4", "f5", "f6"]}[level]:
            with nullcontext() if name == "f3" else not_drawing():  # one figure's files stand for all
                # for ranks runs that could not go on: of those that were merely planned shorter there is no panel
                planned = rows.assign(iterations=300) if name in ("f4", "f6") else rows
                out[f"{level}-{name}"] = trace_figures()[name](collect(planned), folder)
    return out


STOPPED = ("ei-n", PRICED)


def ends(rows: pd.DataFrame) -> pd.DataFrame:
    """Final error and total cost per run, by plain pandas."""
    keys = ["dataset", "pipeline", "seed", "method"]
    return rows.groupby(keys).agg(error=("error", "min"), cost=("cost_s", "sum")).unstack("method")


def test_the_figures_are_found_by_scanning() -> None:
    assert list(trace_figures()) == ["f3", "f4", "f5", "f6", "cd", "anytime"] and list(front_figures()) == ["f1", "f7"]


def test_files_are_what_they_say(drawn: dict[str, Drawn]) -> None:
    figure = drawn["partial-f3"]
    png, svg, csv, txt = figure.paths
    assert [p.name for p in figure.paths] == [f"f3.{s}" for s in ("png", "svg", "csv", "txt")]
    assert png.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert ET.parse(svg).getroot().tag.endswith("svg")
    table = pd.read_csv(csv)
    numeric = figure.numbers.select_dtypes("number").columns
    np.testing.assert_allclose(table[numeric], figure.numbers[numeric], rtol=1e-5)
    assert txt.read_text() == figure.caption + "\n"


@pytest.mark.parametrize("level", ["least", "partial"])
def test_f3_numbers(drawn: dict[str, Drawn], level: str, request: pytest.FixtureRequest) -> None:
    numbers = drawn[f"{level}-f3"].numbers
    numbers = numbers[~numbers["acq"].isin(STOPPED)].set_index(["statistic", "method"])
    found = ends(request.getfixturevalue(level))
    for measure in ("error", "cost"):
        percent = 100 * found[measure].div(found[measure]["ei"], axis=0)
        for statistic, method in numbers.index:
            sums = percent_of_sums(found[measure], method)
            expected = sums.groupby("dataset").mean().mean() if statistic == "mean" else percent[method].median()
            row = numbers.loc[(statistic, method)]
            assert row[f"{measure}_pct"] == pytest.approx(expected)
            if level == "least" or statistic == "median":  # of one data set, or fewer than six
                assert np.isnan(row[f"{measure}_pct_low"]) and np.isnan(row[f"{measure}_pct_high"])
            else:
                assert row[f"{measure}_pct_low"] <= expected * (1 + 1e-12)
                assert row[f"{measure}_pct_high"] >= expected * (1 - 1e-12)
    family = numbers[numbers["alpha"].notna()]
    assert family["alpha"].tolist() == {"least": [0, 1] * 2, "partial": [0, 0.1, 1] * 2}[level]
    assert ("mean", "eicool") in numbers.index or level == "least", "EI-cool beside them, where it was run"


def test_f3_shows_what_the_same_money_buys_with_ei_stopped(drawn: dict[str, Drawn], partial: pd.DataFrame) -> None:
    numbers = drawn["partial-f3"].numbers
    row = numbers[(numbers["statistic"] == "mean") & (numbers["method"] == "ei-9")].iloc[0]
    ei = partial[partial["method"] == "ei"]
    whole, cut = (rows.groupby(["dataset", "pipeline", "seed"]).agg(error=("error", "min"), cost=("cost_s", "sum"))
                  for rows in (ei, ei[ei["step"] < 9]))  # fmt: skip
    problem = ["dataset", "pipeline"]
    expected = (100 * cut.groupby(problem).sum() / whole.groupby(problem).sum()).groupby("dataset").mean().mean()
    assert [row["error_pct"], row["cost_pct"]] == pytest.approx(expected.tolist())
    prices = numbers[numbers["acq"] == PRICED]
    assert len(prices) == 2 * len(PRICES) and (prices["cost_pct"] <= 100 + 1e-9).all()
    assert "EI after n evaluations, EI stopped where no choice pays at a price" in drawn["partial-f3"].caption


def test_f3_captions_say_what_was_averaged(drawn: dict[str, Drawn]) -> None:
    least, partial = drawn["least-f3"].caption, drawn["partial-f3"].caption
    assert f"1 of {ALL} problems, 1 seed (replay), 1 pair per method" in least
    assert "20 iterations" in least and "No intervals: one data set only" in least and "Marked" not in least
    assert f"3 of {ALL} problems, 2 seeds (replay), 6 pairs per method" in partial
    assert "one data set only" not in partial and "hiva† (partial)" in partial


def test_f5_left_numbers_and_uneven_counts(drawn: dict[str, Drawn], partial: pd.DataFrame) -> None:
    numbers = drawn["partial-f5"].numbers
    left = numbers[(numbers["panel"] == "above") & ~numbers["acq"].isin(STOPPED)].set_index(["statistic", "method"])
    assert set(left.index.get_level_values("method")) == set(partial["method"])
    percent = ends(partial)["cost"]
    percent = 100 * percent.div(percent["ei"], axis=0)
    row = left.loc[("median", "cei(lam=0.5)")]
    assert row["cost_pct"] == pytest.approx(percent["cei(lam=0.5)"].median()) and row["n"] == 4
    assert "4 to 6 pairs per method" in drawn["partial-f5"].caption


def test_f5_right_averages_supported_proposals_only(drawn: dict[str, Drawn], partial: pd.DataFrame) -> None:
    numbers = drawn["partial-f5"].numbers
    right = numbers[numbers["panel"] == "below"]
    proposed = partial[(partial["acq"] == "cei") & (partial["step"] >= 5)]
    expected = proposed.groupby(["method", "step"])["effective_alpha"].agg(["mean", "count", "median"])
    found = right.set_index(["method", "iteration"]).sort_index()
    assert found.index.get_level_values("iteration").min() == 6, "the initial design was not proposed"
    for column, name in (("mean", "mean"), ("n", "count"), ("value", "median")):
        np.testing.assert_allclose(found[column].to_numpy(dtype=float), expected[name])
    assert found["upper"].isna().all() and "the largest" not in drawn["partial-f5"].caption
    both = collect(partial.assign(effective_alpha_high=partial["effective_alpha"] + 1))
    upper = effective_alpha(both)[0]
    upper = upper[upper["lam"].notna()].set_index(["method", "iteration"]).sort_index()
    np.testing.assert_allclose(upper["upper"], expected["median"] + 1)
    offered = proposed.groupby(["method", "step"]).size()
    np.testing.assert_allclose(found["unsupported"], 1 - expected["count"] / offered)
    caption, gone = drawn["partial-f5"].caption, proposed["effective_alpha"].isna()
    assert 0.05 < gone.mean() < 0.5 and f"Left out are the {gone.mean():.1%} of CEI's choices" in caption
    shares = gone.groupby(proposed["lam"]).mean()
    assert f"(by lambda: {shares[0.1]:.0%} at 0.1, {shares[0.5]:.0%} at 0.5)" in caption


def test_f6_compares_only_cells_that_have_every_method(drawn: dict[str, Drawn], partial: pd.DataFrame) -> None:
    numbers = drawn["partial-f6"].numbers.query("not equal_money")
    assert set(numbers["method"]) == {"ei", "eipu", "cei(lam=0.1)", "cei(lam=0.5)"}
    assert (numbers["n"] == 4).all()
    np.testing.assert_allclose(numbers.groupby(["multiple", "share"])["value"].sum(), 10.0)
    assert f"2 of {ALL} problems, 2 seeds" in drawn["partial-f6"].caption
    assert "Left out: 2 problem-seed pairs" in drawn["partial-f6"].caption
    assert "over 3 EI^alpha methods" in drawn["partial-f6"].caption


@pytest.mark.parametrize(
    ("name", "methods"),
    [("f4", ["ei", "eialpha(alpha=0.1)", "eipu"]), ("f6", ["ei", "eipu", "cei(lam=0.1)", "cei(lam=0.5)"])],
)
def test_rank_numbers_by_plain_loops(
    name: str, methods: list[str], drawn: dict[str, Drawn], partial: pd.DataFrame
) -> None:
    numbers = (
        drawn[f"partial-{name}"].numbers.query("not equal_money").set_index(["multiple", "share", "method"])["value"]
    )
    assert set(numbers.index.get_level_values("method")) == set(methods)
    complete = partial if name == "f4" else partial[partial["dataset"] == "wind"]  # the cells that have every method
    ranks, ended, where = [], [], []
    for (dataset, _), rows in complete.groupby(["dataset", "pipeline"]):
        front = rows[rows["acq"].isin(["ei", "eialpha", "eipu"])]
        budget = front.groupby(["method", "seed"])["cost_s"].sum().groupby("method").median().min()
        for _, cell in rows.groupby("seed"):
            reached = []
            for method in methods:
                run = cell[cell["method"] == method].sort_values("step")
                done = run["cost_s"].cumsum() <= 2 * budget
                ended.append(run["cost_s"].sum() < 2 * budget)
                reached.append(run["error"][done].min())
            ranks.append(pd.Series(reached, index=methods).fillna(np.inf).rank())
            where.append(dataset)
    expected = pd.DataFrame(ranks).groupby(where).mean().mean()
    for method in methods:
        assert numbers[2.0, 1.0, method] == pytest.approx(expected[method])
    assert f"{np.mean(ended):.1%} (200%)" in drawn[f"partial-{name}"].caption


@pytest.mark.usefixtures("undrawn")
def test_captions_name_the_error_that_was_judged(partial: pd.DataFrame, tmp_path: Path) -> None:
    caption = " ".join(
        trace_figures()["f6"](collect(partial.assign(iterations=300), judge="test"), tmp_path).caption.lower().split()
    )
    assert "best test error" in caption and "validation error" not in caption


def test_the_same_records_give_the_same_bytes(least: pd.DataFrame, drawn: dict[str, Drawn], tmp_path: Path) -> None:
    again = trace_figures()["f3"](collect(least.sample(frac=1, random_state=0)), tmp_path)
    for first, second in zip(drawn["least-f3"].paths, again.paths, strict=True):
        assert first.read_bytes() == second.read_bytes(), first.name
    assert b"<dc:date>" not in again.paths[1].read_bytes()


@pytest.mark.parametrize("name", ["f3", "f6"])
def test_without_ei_there_is_one_clear_line(name: str, least: pd.DataFrame, tmp_path: Path) -> None:
    without = collect(least[least["method"] != "ei"])
    with pytest.raises(BadInput, match=rf"^{name.upper()} needs the method ei: the records hold eipu, cei"):
        trace_figures()[name](without, tmp_path)
    assert not list(tmp_path.iterdir())


def test_f5_needs_cei_and_f6_two_methods(least: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="F5 needs a method cei of 20 iterations: the records hold ei, eipu"):
        trace_figures()["f5"](collect(least[least["acq"] != "cei"]), tmp_path)
    with pytest.raises(BadInput, match="F6 needs two methods or more, got: ei"):
        trace_figures()["f6"](collect(least[least["method"] == "ei"]), tmp_path)


@pytest.mark.usefixtures("undrawn")
def test_f5_without_any_supported_choice(least: pd.DataFrame, tmp_path: Path) -> None:
    found = trace_figures()["f5"](collect(least.assign(effective_alpha=np.nan)), tmp_path)
    left = found.numbers[found.numbers["panel"] == "above"]
    left = left[~left["acq"].isin(STOPPED)]
    assert left["method"].tolist() == ["ei", "eipu", "cei(lam=0.1)"] * 2 and (left["n"] == 1).all()
    assert "Left out are the 100.0% of CEI's choices" in found.caption
    assert found.numbers.loc[found.numbers["panel"] == "below", "value"].isna().all()


def test_labels_lie_neither_on_markers_nor_on_one_another_and_near_their_points() -> None:
    with style():
        figure, plots = new_figure(6.4, 4.4, "")
        axes = plots.subplots()
        x, y = np.r_[20.0, np.linspace(50, 53, 12)], np.r_[50.0, 50 + 0.4 * np.sin(np.arange(12))]
        axes.plot(x, y, "o", markersize=5)
        axes.set(xlim=(0, 100), ylim=(40, 60))
        axes.axhline(50)  # a line without markers is no obstacle
        labels = [axes.text(a, b, f"label {k}", fontsize=7) for k, (a, b) in enumerate(zip(x, y, strict=True))]
        place_labels(axes, labels)
        boxes = [label.get_window_extent() for label in labels]
        points = axes.transData.transform(np.column_stack([x, y]))
        leads = [line for line in axes.lines if line.get_linewidth() == 0.5]
    far = 0
    for k, box in enumerate(boxes):
        assert labels[k].get_visible() and not box.count_overlaps(boxes[k + 1 :])
        away = np.hypot(*(np.clip(points, box.min, box.max) - points).T)
        assert away.min() > 0 and away[k] <= 60 * figure.dpi / 72
        far += away[k] > 9 * figure.dpi / 72
    assert len(leads) == far > 0, "a line from each that stands off to its own point"


def test_ranks_of_runs_that_are_too_short_are_no_figure(partial: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match=r"^F6 needs runs that go on until the minimal budget is spent \(make time\): too"
    ):
        trace_figures()["f6"](collect(partial), tmp_path)


def test_a_method_has_its_colour_and_families_go_from_dark_to_light() -> None:
    def light(method: str) -> float:
        r, g, b = to_rgb(colour_of(method))
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    for family in ("eialpha(alpha={})", "cei(lam={})"):
        shades = [light(family.format(v)) for v in (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)]
        assert all(b - a > 0.008 for a, b in itertools.pairwise(shades))
    assert colour_of("eipu") == colour_of("eialpha(alpha=1)") != colour_of("cei(lam=1)")
    assert colour_of("ei") == "#000000" and colour_of("mine(lambda=2)") == colour_of("mine(lambda=2)")


@pytest.mark.usefixtures("undrawn")
def test_f5_draws_both_medians(partial: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, found = partial.copy(), list[Axes]()
    rows.loc[(rows["lam"] == 0.5) & rows["step"].isin([9, 20]) & (rows["seed"] == 0), "effective_alpha"] = np.nan
    rows.loc[(rows["lam"] == 0.5) & (rows["step"] == 20), "effective_alpha"] = np.nan
    both = rows.assign(effective_alpha_high=rows["effective_alpha"] * 2)
    monkeypatch.setattr("analysis.figures.f3_f5.save", lambda f, *rest: found.extend(f.axes) or save(f, *rest))
    drawn = trace_figures()["f5"](collect(both), tmp_path)
    curve = drawn.numbers[(drawn.numbers["panel"] == "below") & (drawn.numbers["method"] == "cei(lam=0.5)")]
    shown = [np.asarray(line.get_ydata(), dtype=float) for line in found[2].lines]
    few = curve["n"] < 2  # of four runs' choices
    assert 0 < few.sum() < len(few)
    for statistic in ("value", "upper"):  # what rests on too few parts the line
        expected = curve[statistic].where(~few).to_numpy(dtype=float)
        assert any(len(y) == len(expected) and np.allclose(y, expected, equal_nan=True) for y in shown), statistic
    assert (
        f"Not drawn: iterations with fewer such choices than 10, or than half of the runs ({few.sum()} of 25 at 0.5)"
        in drawn.caption
    )
