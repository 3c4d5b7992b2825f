"""The report: one page that needs nothing else, says what it could not make, and is the same for the same records."""

import os
import platform
import re
import signal
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import html5lib
import numpy as np
import pandas as pd
import pytest
from drawing import not_drawing
from synthetic_records import Way, frame, on_disk, percent_of_sums

from analysis import report
from analysis.__main__ import main
from analysis.captions import with_caveat
from analysis.claims.verdicts import Verdict
from analysis.evaluations import Evaluations
from analysis.figures import all_figures
from analysis.plotting import new_figure, save, style
from analysis.report import page
from analysis.report.page import Figure, Section, plain
from analysis.report.sections import Records, compared, count, number, reasons, table, verdicts
from datasets.errors import BadInput

WAYS = [Way("ei"), Way("eialpha", alpha=0.2), Way("eipu"), Way("cei", lam=0.1), Way("eicool")]
GRID = [("wind", "clean"), ("wine", "onehot"), ("hiva", "clean")]
NS = "{http://www.w3.org/1999/xhtml}"


def evaluate(records: Records) -> list[Verdict]:
    """Verdicts that depend on the records: without hiva the second differs."""
    marked = "hiva" in set(records.evaluations.runs["dataset"])
    same = {
        "statistic": "mean",
        "rule": "low > 1 | 2",
        "taken_over": f"{records.evaluations.runs['evaluations'].sum()} rows",
    }
    return [
        Verdict(2, "EI <is> *costly*", "-", ours="3", low=None, high=None, why="no cost records",
                verdict="undecided" if marked else "does not hold", **same),
        Verdict(1, "a | b", "50 %", ours="14.5", low=12.0, high=16.25, verdict="holds", why="so", **same),
    ]  # fmt: skip


def tree(path: Path):
    """The page as a browser parses it; every departure from HTML is an error."""
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=True)
    return parser.parse(path.read_bytes())


def cells(element) -> list[list[str]]:
    return [["".join(cell.itertext()) for cell in row] for row in element.iter(f"{NS}tr")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[str]]:
    """A report of a small grid with a data set that has a caveat: results, its folder, and what was said."""
    results, out, said = tmp_path_factory.mktemp("results"), tmp_path_factory.mktemp("out"), list[str]()
    on_disk(results, GRID, WAYS, [0, 1], 15)
    with not_drawing():
        report.write(results, out, {}, evaluate=evaluate, say=said.append)
    return results, out, said


def section(made: tuple[Path, Path, list[str]], name: str):
    return next(e for e in tree(made[1] / "report.html").iter(f"{NS}section") if e.get("id") == name)


def test_the_page_is_valid_and_needs_nothing_else(made: tuple[Path, Path, list[str]]) -> None:
    root, ids = tree(made[1] / "report.html"), list[str]()
    for element in root.iter():
        if not isinstance(element.tag, str):
            continue
        assert element.tag.removeprefix(NS) not in ("link", "img", "iframe", "object", "embed", "base")
        for key, value in element.attrib.items():
            if key.split("}")[-1] in ("href", "src", "srcset", "data", "action"):
                assert value.startswith("#"), f"{element.tag} refers to {value}"
        ids += [element.get("id")] if element.get("id") else []
    assert len(ids) == len(set(ids)), "every id once"
    text = (made[1] / "report.html").read_text()
    for word in ("@import", "url(http", "//fonts", "fetch(", "XMLHttpRequest", "WebSocket", "sendBeacon", "import("):
        assert word not in text, word
    assert set(re.findall(r'https?://[^"\'\s<)]+', text)) <= {"http://www.w3.org/2000/svg"}, "a name, not asked for"
    assert set(re.findall(r'(?:href="#|aria-labelledby=")([^"]+)', text)) <= set(ids)


def test_the_claims_come_first_and_figures_have_text_for_those_who_cannot_see_them(
    made: tuple[Path, Path, list[str]],
) -> None:
    root = tree(made[1] / "report.html")
    first = [s.get("id") for s in root.iter(f"{NS}section")]
    assert first[:3] == ["front", "claims", "verdicts"] and set(all_figures()) <= set(first)
    assert cells(section(made, "claims")) == [
        ["#", "verdict", "claim", "ours [95 %]", "paper"],
        ["1", "holds", "a | b", "14.5 [12, 16.25]", "50 %"],
        ["2", "undecided", "EI <is> *costly*", "3", "-"],
    ]
    drawings = [e for e in root.iter() if isinstance(e.tag, str) and e.tag.endswith("}svg") and e.get("role") == "img"]
    figures = [line for line in made[2] if line.endswith(".svg")]
    assert len(drawings) == len(figures) + 1 >= 5, "one more at the front, where no script runs"
    for drawing in drawings:
        assert drawing.get("role") == "img" and "The caption below says" in drawing.get("aria-label")
    captions = ["".join(e.itertext()) for e in root.iter(f"{NS}figcaption")]
    texts = [Path(line).with_suffix(".txt").read_text().strip() for line in figures]
    assert captions[-len(texts) :] == texts and captions[-len(texts) - 1] in texts
    for table_ in root.iter(f"{NS}table"):
        assert all(head.get("scope") == "col" for head in table_.iter(f"{NS}th"))


def test_what_could_not_be_made_says_why_in_its_place(made: tuple[Path, Path, list[str]]) -> None:
    text = "".join(section(made, "f2").itertext())
    assert "Not drawn: F2 needs records of cost models: make models, or" in text
    assert "f2 was not drawn: F2 needs records of cost models" in "\n".join(made[2])
    assert "Not drawn: F9 needs records of EI^alpha under two cost models" in "".join(section(made, "f9").itertext())
    made_with = "".join(section(made, "versions").itertext())
    assert re.search(rf"files of records made with .*, numba .*, python {platform.python_version()}, ", made_with)
    markdown = (made[1] / "report.md").read_text()
    assert "### F2: How fast cost models learn\n\nNot drawn: F2 needs records" in markdown


def test_errors_at_equal_cost_are_those_of_the_figure(made: tuple[Path, Path, list[str]]) -> None:
    numbers = pd.read_csv(made[1] / "anytime.csv").query("family == 'CEI' and statistic == 'mean' and cost_pct == 60")
    row = next(r for r in cells(section(made, "equal-cost-0")) if r[:2] == ["CEI", "mean"])
    assert row[cells(section(made, "equal-cost-0"))[0].index("60 %")].startswith(f"{numbers['off'].item():.2f} [")


def test_marked_data_sets_stand_apart_and_numbers_are_given_without_them(made: tuple[Path, Path, list[str]]) -> None:
    assert "hiva† (partial): 3076 of OpenML's 4229 rows" in "".join(section(made, "marked").itertext())
    apart, every, without = (cells(section(made, name)) for name in ("marked-apart", "relative", "without-relative"))
    rows = frame(GRID, WAYS, [0, 1], 15).groupby(["dataset", "seed", "method"])["cost_s"].sum().unstack("method")
    percent = percent_of_sums(rows, "cei(lam=0.1)")
    column = every[0].index("mean cost (%)")
    for found, kept in ((apart, ["hiva"]), (every, ["hiva", "wind", "wine"]), (without, ["wind", "wine"])):
        row = next(r for r in found if r[0] == "CEI 0.1")
        mean = percent.loc[kept].groupby("dataset").mean().mean()
        assert row[column].startswith(f"{mean:.2f}") and ("[" in row[column]) == (len(kept) > 1)
        assert row[1] == str(2 * len(kept))
    assert cells(section(made, "without-claims"))[1:] == [
        ["1", "holds", "holds", "no", "a | b", "14.5 [12, 16.25]"],
        ["2", "undecided", "does not hold", "yes", "EI <is> *costly*", "3"],
    ]
    numbers = pd.read_csv(made[1] / "relative.csv", keep_default_na=False)
    assert set(numbers["without"]) == {"", "hiva", "wind wine"}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(("grid", "ways"), [
    ([("wind", "clean")], [Way("eipu"), Way("cei", lam=0.1)]),
    ([("my.csv", "clean")], [Way("cei", lam=0.1)]),
])  # fmt: skip
def test_one_problem_one_seed_and_two_methods_or_one(grid: list, ways: list[Way], tmp_path: Path) -> None:
    on_disk(tmp_path / "results", grid, ways, [0], 7)
    report.write(tmp_path / "results", tmp_path / "out", {}, say=lambda line: None)
    root = tree(tmp_path / "out/report.html")
    assert [row[:2] for row in cells(root)[1:13]] == [[str(n), "undecided"] for n in range(1, 13)]
    assert pd.read_csv(tmp_path / "out/claims.csv")["number"].tolist() == list(range(1, 13))
    text = (tmp_path / "out/report.md").read_text()
    assert ("Not computed: the summary needs the method ei" in text) == (ways[0].acq != "ei")
    assert (f"| {with_caveat(grid[0][0])} | clean | {len(ways)} | {7 * len(ways)} |") in text


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_the_command_makes_it_and_the_same_records_give_the_same_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analysis.report.sections.all_figures", lambda: {"f3": all_figures()["f3"]})
    on_disk(tmp_path / "results", GRID[2:], [Way("ei"), Way("eipu")], [0], 7)
    for out in ("first", "again"):
        assert main(["report", f"results_dir={tmp_path / 'results'}", f"out_dir={tmp_path / out}"]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == str(tmp_path / out / "report.html")
    for name in ("report.html", "report.md", "claims.csv"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    text = (tmp_path / "again/report.html").read_text()
    assert str(tmp_path) not in text and "all numbers above rest on these alone" in text


def test_claims_that_cannot_be_asked_say_why() -> None:
    def refuse(records: Records) -> list[Verdict]:
        raise BadInput("the records are <odd>")

    found = verdicts(refuse, Records(Evaluations.of(frame(GRID, WAYS[:1], [0], 6))))
    assert found == "The claims could not be decided: the records are \\<odd>."


def test_text_from_anywhere_is_shown_as_it_is(tmp_path: Path) -> None:
    nasty = "<script>alert(1)</script> & *a* `b` [c](http://d.e) | <http://f.g>"
    verdict = Verdict(1, nasty, nasty, nasty, nasty, nasty, None, None, nasty, nasty, nasty)
    sections = [Section("claims", nasty, [table([verdict]), *reasons([verdict])])]
    sections.append(Section("f1", nasty, figure=Figure("f1", nasty, missing=nasty)))
    (tmp_path / "page.html").write_text(page.html(nasty, nasty, sections))
    root = tree(tmp_path / "page.html")
    assert [e.get("id") for e in root.iter(f"{NS}script")] == [None], "the page's own"
    assert [e.get("href") for e in root.iter(f"{NS}a") if not e.get("href").startswith("#")] == []
    shown = cells(root)[1]
    assert shown[2].startswith("<script>alert(1)</script> & *a* `b` ") and "|" in shown[2]
    assert nasty in "".join(next(root.iter(f"{NS}h1")).itertext())
    assert plain("a\n b") == "a b"


def test_verdicts_in_words() -> None:
    found = evaluate(Records(Evaluations.of(frame(GRID, WAYS[:1], [0], 6))))
    assert count(found) == "1 holds, 0 do not hold, 1 is undecided"
    assert number(found[1]) == "14.5 [12, 16.25]" and number(found[0]) == "3"
    assert reasons(found)[2:] == ["**1. a | b.** **Holds:** so.",
                                  "*Statistic:* mean. *Rule:* low > 1 | 2. *Taken over:* 18 rows."]  # fmt: skip
    assert "| 1 | holds | holds | no |" in compared(found, found)


def test_a_figure_goes_into_the_page_whole_but_for_its_caption(tmp_path: Path) -> None:
    with style():
        figure, plots = new_figure(4.0, 3.0, "A caption of its own.")
        plots.subplots().plot([0.0, 1.0], [0.0, 1.0])
        drawn = save(figure, "f0", "A caption of its own.", pd.DataFrame(), tmp_path)
    shown = page.html("t", "l", [Section("f", "A <b>", figure=Figure("f0", "A <b>", drawn))])
    assert "F0: A &lt;b&gt;. The caption below" in shown and shown.count("A caption of its own.") == 1
    (tmp_path / "page.html").write_text(shown)
    (svg,) = (e for e in tree(tmp_path / "page.html").iter() if isinstance(e.tag, str) and e.tag.endswith("}svg"))
    ids = [e.get("id") for e in svg.iter() if e.get("id")]
    assert "f-axes_1" in ids and "f-caption" not in ids and all(name.startswith("f-") for name in ids)
    clips = set(re.findall(r"url\(#(f-[^)]+)\)", shown))
    assert clips and clips <= set(ids), "what cuts curves off goes along"
    texts = [e.text for e in svg.iter() if isinstance(e.tag, str) and e.tag.endswith("}text")]
    assert "0.4" in texts, "text is text"
    whole = [float(v) for v in ET.parse(drawn.paths[1]).getroot().get("viewBox").split()[2:]]  # type: ignore[union-attr]
    part = [float(v) for v in svg.get("viewBox").split()]
    assert part[2] == pytest.approx(whole[0]) and part[3] == pytest.approx(3.0 * 72, rel=0.02) and part[3] < whole[1]


def test_what_is_done_meanwhile_says_how_it_ended() -> None:
    held = np.arange(3.0)
    assert report.meanwhile(lambda: held.sum())() == 3
    with pytest.raises(ZeroDivisionError):
        report.meanwhile(lambda: 1 // 0)()
    if sys.platform == "linux":
        with pytest.raises(RuntimeError, match="exit code 7"):
            report.meanwhile(lambda: os._exit(7))()
        assert report.meanwhile(lambda: os.kill(os.getpid(), signal.SIGINT))() is None, "Ctrl-C ends the parent alone"
