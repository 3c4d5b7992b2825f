"""The page's interactive front: its numbers, computed by its own script, are those of `analysis.equal_cost`."""

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import html5lib
import numpy as np
import pandas as pd
import pytest
from synthetic_records import Way, frame, fronts_on_disk

from analysis.equal_cost import ERROR, MEAN, at_equal_cost, pair_runs
from analysis.figures.one_run import one_run, steps
from analysis.report import front, page
from analysis.report.page import Section
from analysis.traces import collect

WAYS = [Way("ei"), Way("eialpha", alpha=0.2), Way("eipu"), Way("cei", lam=0.1), Way("cei", lam=0.5), Way("random")]
GRID = [("wind", "clean"), ("wind", "onehot"), ("wine", "onehot"), ("hiva", "clean"), ("sonar", "clean")]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NODE = shutil.which("node")
NEITHER = pytest.mark.skipif(not (BROWSER or NODE), reason="needs Chromium (apt-get install chromium), or else Node.js")


@pytest.fixture(scope="module")
def records() -> pd.DataFrame:
    rows = frame(GRID, WAYS, [0, 1, 2], 24, fail=0.3)
    return rows[~((rows["dataset"] == "wind") & (rows["pipeline"] == "onehot") & (rows["seed"] == 2))]  # weights differ


@pytest.fixture(scope="module")
def written(records: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = pair_runs(collect(records))
    path = tmp_path_factory.mktemp("page") / "page.html"
    section = Section("front", "Front", ["lead"], front=(front.numbers(runs), front.caption(runs)))
    path.write_text(page.html("Title", "lead", [section]))
    return path


def in_browser(path: Path, fragment: str, more: str = "") -> Any:
    """The page's elements after its scripts have run; more: of a script at its end."""
    copy = path.with_name("asked.html")
    copy.write_text(path.read_text().replace("</body>", f"<script>{more}</script></body>"))
    assert BROWSER
    flags = [
        "--headless",
        "--disable-gpu",
        "--no-first-run",
        "--disable-extensions",
        "--virtual-time-budget=2000",
        f"--user-data-dir={path.parent / 'profile'}",
    ]
    flags += ["--no-sandbox"] if os.geteuid() == 0 else []
    done = subprocess.run([BROWSER, *flags, "--dump-dom", f"file://{copy}{fragment}"], capture_output=True, timeout=120)
    return html5lib.parse(done.stdout, namespaceHTMLElements=False)


def computed(path: Path, length: int, budget: int, without: str = "") -> dict[str, dict[str, Any]]:
    """Numbers of every method: by the page in a browser, where there is one, else by its script alone."""
    if BROWSER:
        root = in_browser(path, f"#front?n={length}&at={budget}&no-datasets={without}")
        lines = [json.loads(e.get("data-numbers")) for e in root.iter("tr") if e.get("data-numbers")]
    else:
        data = path.read_text().partition('id="front-data">')[2].partition("</script>")[0]
        code = f"""const S = require({str(page.PARTS / "statistics.js")!r}), d = S.open({data});
            const p = S.chosen(d, {{datasets: {without.split(",")}}});
            const b = S.within(d, p, d.budgets.indexOf({budget}));
            console.log(JSON.stringify(S.after(d, p, d.lengths.indexOf({length})).map((a, m) => ({{name: a.name,
              cost: a.cost, after: a.error, within: b[m].error, off: b[m].off, won: b[m].won, first: b[m].first}}))))"""
        done = subprocess.run([str(NODE), "-e", code], capture_output=True, check=True, text=True)
        lines = json.loads(done.stdout)
    return {line["name"]: line for line in lines}


@NEITHER
@pytest.mark.parametrize("without", ["", "wine,sonar"])
def test_the_page_computes_what_python_computes(records: pd.DataFrame, written: Path, without: str) -> None:
    rows = records[~records["dataset"].isin(without.split(","))]
    runs = pair_runs(collect(rows))
    found = computed(written, 12, 40, without)
    expected = at_equal_cost(runs, [40.0])
    expected = expected[(expected["measure"] == ERROR) & (expected["statistic"] == MEAN)].query("cost_pct == 40")
    assert len(expected) == 4 and {m for m, line in found.items() if line["first"]} == set(expected["method"])
    for row in expected.to_dict("records"):
        line = found[row["method"]]
        ours = [line[kind][end] for kind in ("within", "off") for end in ("value", "low", "high")] + [line["won"]]
        theirs = [row[k] for k in ("value", "low", "high", "off", "off_low", "off_high", "won")]
        np.testing.assert_allclose(np.array(ours, float), np.array(theirs, float), atol=0.02)
        assert line["within"]["datasets"] == row["datasets"]
    # after 12 evaluations, by plain pandas: EI's whole runs are 100
    keys = ["dataset", "pipeline", "seed", "method"]
    first = rows[rows["step"] < 12].groupby(keys).agg(cost=("cost_s", "sum"), after=("error", "min"))
    whole = rows[rows["method"] == "ei"].groupby(keys[:3]).agg(cost=("cost_s", "sum"), after=("error", "min"))
    for kind in ("cost", "after"):
        unit = whole[kind].groupby(keys[:2]).transform("mean")  # over seeds
        percent = 100 * first[kind].unstack("method").div(unit, axis=0).dropna()
        means = percent.groupby("dataset").mean()
        for method, value in means.mean().items():
            assert found[str(method)][kind]["value"] == pytest.approx(value, abs=0.02)


@pytest.mark.skipif(not BROWSER, reason="needs Chromium: apt-get install chromium")
def test_a_click_goes_into_the_address_and_the_address_into_the_view(written: Path) -> None:
    more = """const n = document.querySelector("[name=n]"); n.value = 1; n.dispatchEvent(new Event("input"));
        document.querySelectorAll("th button")[2].click();
        const f = document.querySelector("input[type=search]"); f.value = "cei"; f.dispatchEvent(new Event("input"));
        const names = [...document.querySelectorAll(".ranking-plot text")];
        const bold = names.filter(t => getComputedStyle(t).fontWeight >= 700);
        document.title = location.hash + "|" + bold.map(t => t.textContent).sort();"""
    clicked = in_browser(written, "", more)
    address, bold = "".join(next(clicked.iter("title")).itertext()).split("|")
    first = [line for line in clicked.iter("tr") if json.loads(line.get("data-numbers", "{}")).get("first")]
    assert first and bold.split(",") == sorted("".join(line[0].itertext()).removesuffix(" *") for line in first)
    assert address == "#front?n=6&sort.front.0=2a&filter.front.0=cei"
    linked = in_browser(written, address)

    def seen(root: Any) -> list[str]:
        lines = [e for e in root.iter("tr") if e.get("data-numbers") and e.get("hidden") is None]
        return ["".join(line[0].itertext()) for line in lines]

    assert seen(clicked) == seen(linked) and {name[:3] for name in seen(linked)} == {"CEI"} and len(seen(linked)) == 2
    texts = ["".join(e.itertext()) for e in linked.iter() if str(e.tag).endswith("text")]
    assert "CEI 0.5" in texts and any("after 6 evaluations" in (e.get("aria-label") or "") for e in linked.iter())


@pytest.mark.skipif(not BROWSER, reason="needs Chromium: apt-get install chromium")
def test_addresses_that_were_cut_off_and_names_with_commas(tmp_path: Path) -> None:
    datasets = ("it,em.csv", "wind", "wine", "hiva", "sonar", "spam", "bach", "mtp", "letters")
    runs = pair_runs(collect(frame([(name, "clean") for name in datasets], [Way("ei")], [0, 1], 24)))
    section = Section("front", "Front", ["lead"], front=(front.numbers(runs), front.caption(runs)))
    (tmp_path / "page.html").write_text(page.html("Title", "lead", [section]))
    cut = in_browser(tmp_path / "page.html", "#front?n=24&at=40%")
    assert sum(e.get("data-numbers") is not None for e in cut.iter("tr")) == 1
    assert sum(str(e.tag).endswith("line") for e in cut.iter()) < 500, "EI beside itself differs by rounding alone"
    untick = """const b = document.querySelector("[name=datasets][value='it,em.csv']"); b.click();
        const left = document.querySelectorAll("[name=datasets]:checked").length;
        document.title = location.hash + " " + b.checked + left;"""
    title = "".join(next(in_browser(tmp_path / "page.html", "", untick).iter("title")).itertext())
    assert title == "#front?no-datasets=it%252Cem.csv false8"


@pytest.mark.skipif(not BROWSER, reason="needs Chromium: apt-get install chromium")
def test_a_run_is_seen_step_by_step(tmp_path: Path) -> None:
    fronts_on_disk(tmp_path / "results", [("wind", "clean")], [0], stays=True)
    run, fronts = one_run(tmp_path / "results", {})
    assert fronts is not None
    section = Section("run", "Run", ["lead"], run=steps(run, fronts))
    (tmp_path / "page.html").write_text(page.html("Title", "lead", [section]))
    root = in_browser(tmp_path / "page.html", "#run?step=7")
    row, (said,) = run.iloc[6], [e for e in root.iter("p") if e.get("class") == "answer"]
    numbers = [float(word.rstrip(".,;:")) for word in "".join(said.itertext()).split() if word[0].isdigit()]
    expected = [
        7,
        row["predicted_cost_s"],
        row["cost_s"],
        row["error"],
        run["error"][:7].min(),
        run["cost_s"][:7].sum(),
    ]
    np.testing.assert_allclose(numbers, expected, rtol=6e-3)
    told = [e.get("aria-label") for e in root.iter() if "predicted cost" in (e.get("aria-label") or "")][1:]
    front = fronts[fronts["step"] == 6]
    assert len(told) == len(front) and told[0].startswith(
        f"chosen: predicted cost {np.exp(front['log_cost'].min()):.3g}"
    )


def test_numbers_come_back_as_exactly_as_said() -> None:
    values = np.exp(np.random.default_rng(0).uniform(-3, 12, (3, 4)))
    values[1, 2], values[0, 0] = np.nan, 0.0
    found = front.packed(values)
    codes = np.frombuffer(base64.b64decode(found["data"]), "<u2").astype(float).reshape(3, 4)
    codes[codes == 65535] = np.nan
    back = np.where(codes == 65534, 0.0, np.exp(found["low"] + codes / 65533 * (found["high"] - found["low"])))
    np.testing.assert_allclose(back, values, rtol=(found["high"] - found["low"]) / 2**17 * 1.01)
    with pytest.raises(ValueError, match=">= 0"):
        front.packed(np.full(1, -1.0))


def test_lengths_begin_with_the_design_and_end_with_all() -> None:
    assert front.lengths(100, 5) == [5, *range(10, 101, 10)] and front.lengths(3, 1) == [1, 2, 3]
    assert all(len(front.lengths(n, 5)) <= front.MOST_LENGTHS for n in range(5, 400))
