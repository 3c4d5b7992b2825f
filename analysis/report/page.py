"""The report as one HTML page, and as Markdown: sections of Markdown text, each perhaps with a figure.

The page's template, style and scripts are the files of `page_parts`. All of them, the figures and the numbers of the
interactive front are embedded, so that the page loads nothing from elsewhere.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from analysis.claims.verdicts import FAILS, HOLDS, PARTLY, UNDECIDED
from analysis.plotting import CAPTION, Drawn

VERDICTS: dict[str, str] = {HOLDS: "holds", PARTLY: "open", FAILS: "fails", UNDECIDED: "open"}
PARTS = Path(__file__).parent / "page_parts"
SCRIPTS = ("statistics.js", "state.js", "charts.js", "front.js", "run.js", "tables.js")
_REM_PER_POINT = 1.15 * 96 / 72 / 16  # letters of 9 points as large as small print on the page


@dataclass(frozen=True)
class Figure:
    """A figure of the report, or the reason why it could not be drawn (`missing`)."""

    name: str
    title: str
    drawn: Drawn | None = None
    missing: str = ""


@dataclass(frozen=True)
class Section:
    """A heading with Markdown under it. level: 2 for the page's sections, 3 below them.

    table, numbers: the name of the CSV file that the section's numbers belong in (relative, ranks), and the numbers.
    front: the numbers of the interactive front (`analysis.report.front`) and its caption; the section's figure then
    stands on the page where no script runs; Markdown, which cannot be asked, has the figure alone, or nothing where
    that has a section of its own. run: of the view of one run (`analysis.figures.one_run.steps`), above the figure.
    """

    id: str
    title: str
    text: list[str] = field(default_factory=list)
    level: int = 2
    figure: Figure | None = None
    table: str = ""
    numbers: pd.DataFrame | None = None
    front: tuple[Mapping[str, Any], str] | None = None
    run: Mapping[str, Any] | None = None


def plain(text: str) -> str:
    """Return a text for Markdown to show as it is: nothing in it is taken for markup."""
    for mark in "\\`*<":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())


def markdown(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Return the report as Markdown; figures are linked as PNG beside it."""
    parts = [f"# {title}", lead]
    for section in sections:
        elsewhere = any(other.figure is section.figure for other in sections if other is not section)
        if section.front and (section.figure is None or elsewhere):
            continue
        parts += [f"{'#' * section.level} {section.title}", *([] if section.front else section.text)]
        if figure := section.figure:
            link = f"![{figure.name.upper()}: {figure.title}]({figure.name}.png)"
            parts += [link, figure.drawn.caption] if figure.drawn else [f"Not drawn: {figure.missing}."]
    return "\n\n".join(part for part in parts if part) + "\n"


def html(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Return the report as a page that needs nothing beside it: styles and figures are inside."""
    environment = Environment(
        loader=FileSystemLoader(PARTS), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    contents: list[tuple[Section, list[Section]]] = []
    for section in sections:
        if section.level == 2:
            contents.append((section, []))
        else:
            contents[-1][1].append(section)
    shown = [(section, body(section), _drawing(section)) for section in sections]
    environment.filters["data"] = _as_json
    return environment.get_template("report.html.j2").render(
        title=title, lead=lead, contents=contents, sections=shown, style=_part("report.css"),
        script=Markup("\n").join(map(_part, SCRIPTS)),
    ) + "\n"  # fmt: skip


def _part(name: str) -> Markup:
    return Markup((PARTS / name).read_text(encoding="utf-8").strip())


def _as_json(values: Mapping[str, Any]) -> Markup:
    """Return JSON that may stand in an element `script`: nothing in it ends one."""
    text = json.dumps(values, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def _drawing(section: Section) -> Markup:
    """Return the section's figure as an element of HTML without its caption, which the page has as text; "" for none.

    Its letters stay letters. Ids get the section's in front, so that those of two figures never meet.
    """
    figure = section.figure
    if figure is None or figure.drawn is None:
        return Markup("")
    svg = next(path for path in figure.drawn.paths if path.suffix == ".svg").read_text(encoding="utf-8")
    size = re.search(r'viewBox="0 0 (\S+) (\S+)"', svg)
    width, height = (float(points) for points in size.groups()) if size else (1.0, 1.0)
    inside = svg[svg.find('<g id="figure_1">') : svg.rfind("</svg>")]
    plots, _, rest = inside.partition(f'<g id="{CAPTION}">')
    plots += f"</g>{rest[rest.find('<defs>', rest.rfind('</text>')) :] if '<defs>' in rest else ''}" if rest else ""
    plots = re.sub(r' d="[^"]+"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), plots)
    plots = re.sub(r'( id="|xlink:href="#|url\(#)', rf"\g<1>{section.id}-", plots)
    label = f"{figure.name.upper()}: {figure.title}. The caption below says what is drawn and what was left out."
    return Markup(
        '<svg class="plot drawn" role="img" aria-label="{}" viewBox="0 0 {:g} {:g}" '
        'style="max-width: {:.1f}rem">{}</svg>'
    ).format(label, width, height * figure.drawn.plots_share, width * _REM_PER_POINT, Markup(plots))


@cache
def _renderer() -> MarkdownIt:
    """Return a Markdown renderer that takes no HTML from the text."""
    return MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "autolink"])


def body(section: Section) -> Markup:
    """Return a section's text as HTML: tables scroll on their own, cells of verdicts and numbers have a class.

    What looks like a tag below is one of the renderer's, since it escapes those of the text.
    """
    text = _renderer().render("\n\n".join(section.text))
    text = re.sub(r"</?a\b[^>]*>", "", text)  # links to files beside the page would be dead in a copy
    region = f'<div class="scroll" role="region" aria-label="{escape(section.title)}" tabindex="0">\n'
    text = text.replace("<table>", f"{region}<table>").replace("</table>", "</table>\n</div>")
    text = re.sub(r"<th\b", '<th scope="col"', text)
    text = re.sub(r"<td>([-+\d.,%\s\[\]]+)</td>", r'<td class="number">\1</td>', text)
    verdict = f"<td>({'|'.join(VERDICTS)})(: [^<]*)?</td>"
    classed = '<td class="verdict {}">{}{}</td>'
    return Markup(re.sub(verdict, lambda cell: classed.format(VERDICTS[cell[1]], cell[1], cell[2] or ""), text))
