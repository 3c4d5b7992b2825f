"""The report as one HTML page, and as Markdown: sections of Markdown text, each perhaps with a figure."""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from analysis.claims.verdicts import FAILS, HOLDS, PARTLY, UNDECIDED
from analysis.plotting import Drawn

VERDICTS: dict[str, str] = {HOLDS: "holds", PARTLY: "open", FAILS: "fails", UNDECIDED: "open"}
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
    """

    id: str
    title: str
    text: list[str] = field(default_factory=list)
    level: int = 2
    figure: Figure | None = None
    table: str = ""
    numbers: pd.DataFrame | None = None


def plain(text: str) -> str:
    """Return a text for Markdown to show as it is: nothing in it is taken for markup."""
    for mark in "\\`*<":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())


def markdown(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Return the report as Markdown; figures are linked as PNG beside it."""
    parts = [f"# {title}", lead]
    for section in sections:
        parts += [f"{'#' * section.level} {section.title}", *section.text]
        if figure := section.figure:
            link = f"![{figure.name.upper()}: {figure.title}]({figure.name}.png)"
            parts += [link, figure.drawn.caption] if figure.drawn else [f"Not drawn: {figure.missing}."]
    return "\n\n".join(part for part in parts if part) + "\n"


def html(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Return the report as a page that needs nothing beside it: styles and figures are inside."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    contents: list[tuple[Section, list[Section]]] = []
    for section in sections:
        if section.level == 2:
            contents.append((section, []))
        else:
            contents[-1][1].append(section)
    shown = [(section, body(section), _drawing(section.figure)) for section in sections]
    template = environment.get_template("report.html.j2")
    return template.render(title=title, lead=lead, contents=contents, sections=shown) + "\n"


def _drawing(figure: Figure | None) -> Markup:
    """Return the figure as an element of HTML without its caption, which the page has as text; "" where it is missing.

    The SVG file is an image of its own, so that neither ids nor styles of two figures meet.
    """
    if figure is None or figure.drawn is None:
        return Markup("")
    svg = next(path for path in figure.drawn.paths if path.suffix == ".svg").read_bytes()
    size = re.search(rb'viewBox="0 0 (\S+) (\S+)"', svg)
    width, height = (float(points) for points in size.groups()) if size else (1.0, 1.0)
    plots, _, rest = svg.partition(b'<g id="subfigure_2">')  # the caption, whose letters would be half of the file
    clips = rest[rest.find(b"\n <defs>") :] if b"\n <defs>" in rest else b"\n</svg>\n"
    svg = re.sub(rb' d="[^"]+"', lambda path: re.sub(rb"(\.\d\d)\d+", rb"\1", path[0]), plots + b"</g>" + clips)
    label = f"{figure.name.upper()}: {figure.title}. The caption below says what is drawn and what was left out."
    return Markup(
        '<svg class="plot" role="img" aria-label="{}" viewBox="0 0 {:g} {:g}" style="max-width: {:.1f}rem">'
        '<image width="{:g}" height="{:g}" href="data:image/svg+xml;base64,{}"/></svg>'
    ).format(label, width, height * figure.drawn.plots_share, width * _REM_PER_POINT, width, height,
             base64.b64encode(svg).decode())  # fmt: skip


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
