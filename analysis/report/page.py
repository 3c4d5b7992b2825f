"""The report as one HTML page, and as Markdown: its sections and figures, and how figures become part of a page."""

import colorsys
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from analysis.claims.verdicts import FAILS, HOLDS, UNDECIDED
from analysis.plotting import Drawn

# Colours of figures on a light and on a dark page: each becomes a variable of the page's style with two values.

DARK_PAGE = "#14171a"
LEAST_CONTRAST = 4.5  # WCAG 2.1, success criterion 1.4.3
_COLOUR = re.compile(r"#([0-9a-fA-F]{6})\b")
_GREY = 0.1  # saturation up to which a colour is none


def as_variables(style: str) -> str:
    """Return a style whose colours are the page's variables: ``fill: #0072b2`` becomes ``fill: var(--c0072b2)``."""
    return _COLOUR.sub(lambda found: f"var(--c{found[1].lower()})", style)


def used(markup: str) -> list[str]:
    """Return the colours, as six hexadecimal digits, that a page's figures use as variables, sorted."""
    return sorted(set(re.findall(r"var\(--c([0-9a-f]{6})\)", markup)))


def definitions(colours: Iterable[str], dark: bool) -> str:
    """Return the variables' definitions for one of the two pages."""
    return " ".join(f"--c{colour}: {on_dark(f'#{colour}') if dark else f'#{colour}'};" for colour in colours)


def on_dark(colour: str) -> str:
    """Return the colour for a dark page: greys change places with their opposites, others are lightened if need be.

    Hues stay. A colour that is not grey gets a contrast of 4.5 or more against the page.
    """
    r, g, b = _rgb(colour)
    hue, light, saturation = colorsys.rgb_to_hls(r, g, b)
    if max(r, g, b) - min(r, g, b) <= _GREY:
        return _hex(*colorsys.hls_to_rgb(hue, 0.93 - 0.83 * light, saturation))
    while contrast(_hex(r, g, b), DARK_PAGE) < LEAST_CONTRAST:
        light += 0.01
        r, g, b = colorsys.hls_to_rgb(hue, light, saturation)
    return _hex(r, g, b)


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, 1 to 21 (WCAG 2.1)."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in _rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _rgb(colour: str) -> tuple[float, float, float]:
    r, g, b = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return r, g, b


def _hex(r: float, g: float, b: float) -> str:
    return "#" + "".join(f"{round(255 * min(1.0, max(0.0, v))):02x}" for v in (r, g, b))


# What the report is made of: sections of Markdown, each perhaps with a figure.


@dataclass(frozen=True)
class Records:
    """All that the report is made from: evaluations (`read_traces`), records of cost models, fronts; None: none."""

    frame: pd.DataFrame
    costs: pd.DataFrame | None = None
    fronts: pd.DataFrame | None = None

    def without(self, datasets: list[str]) -> "Records":
        """Return the records of the other data sets."""

        def others(rows: pd.DataFrame | None) -> pd.DataFrame | None:
            return None if rows is None else rows[~rows["dataset"].isin(datasets)]

        frame = self.frame[~self.frame["dataset"].isin(datasets)]
        return Records(frame, others(self.costs), others(self.fronts))


@dataclass(frozen=True)
class Figure:
    """A figure of the report, or the reason why it could not be drawn (`missing`)."""

    name: str
    title: str
    drawn: Drawn | None = None
    missing: str = ""


@dataclass(frozen=True)
class Section:
    """A heading with Markdown under it. level: 2 for the page's sections, 3 below them."""

    id: str
    title: str
    text: list[str] = field(default_factory=list)
    level: int = 2
    figure: Figure | None = None


def plain(text: str) -> str:
    """Return a text for Markdown to show as it is: nothing in it is taken for markup."""
    for mark in "\\`*<":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())


# Figures for the inside of a page: one SVG element, its ids its own, its colours the page's, no caption, no paper.

_SVG, _XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
_REM_PER_POINT = 1.15 * 96 / 72 / 16  # letters of 9 points as large as small print on the page
_PAPER = "fill: #ffffff"
_CAPTION, _PLOTS = "subfigure_2", "subfigure_1"  # as `plotting.new_figure` parts a figure


def inline(path: Path, prefix: str, label: str, description: str) -> str:
    """Return the figure in `path` as an element of HTML that a screen reader announces by `label`.

    Every id and reference gets the `prefix`, since all figures of a page share one name space. The caption is cut
    off (the page has it as text), and white areas become transparent, so that the page's own colour shows.
    """
    root = ET.fromstring(path.read_bytes())
    for child in list(root):
        if child.tag == f"{_SVG}metadata":
            root.remove(child)
    _cut_caption(root)
    for parent in list(root.iter()):
        for style in parent.findall(f"{_SVG}style"):
            parent.remove(style)  # `* {...}` would apply to the whole page; the page's own style says it
    for element in root.iter():
        _clean(element, prefix)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    width = float(root.get("viewBox", "").split()[2]) * _REM_PER_POINT
    root.attrib |= {"style": f"max-width: {width:.1f}rem"}
    root.attrib |= {"role": "img", "aria-labelledby": f"{prefix}-label {prefix}-about", "class": "plot"}
    for tag, text in (("desc", description), ("title", label)):
        element = ET.Element(tag, {"id": f"{prefix}-{'label' if tag == 'title' else 'about'}"})
        element.text = text
        root.insert(0, element)
    return ET.tostring(root, encoding="unicode", short_empty_elements=True)


def _cut_caption(root: ET.Element) -> None:
    """Remove the part of the figure that holds the caption, and shorten the drawing by it."""
    whole = root.find(f"{_SVG}g")
    if whole is None:
        return
    parts = {group.get("id"): group for group in whole.findall(f"{_SVG}g")}
    if _CAPTION not in parts or _PLOTS not in parts:
        return
    whole.remove(parts[_CAPTION])
    area = parts[_PLOTS].find(f"{_SVG}g/{_SVG}path")
    corner = re.match(r"M (\S+) (\S+)", "" if area is None else area.get("d", ""))
    x, y, width, _ = root.get("viewBox", "").split()
    if corner:
        root.set("viewBox", f"{x} {y} {width} {float(corner[2]):g}")


def _clean(element: ET.Element, prefix: str) -> None:
    """Drop name spaces (HTML needs none), prefix ids, shorten coordinates, and take the paper away."""
    element.tag = element.tag.removeprefix(_SVG)
    for key, value in list(element.attrib.items()):
        del element.attrib[key]
        name = key.removeprefix(_XLINK).removeprefix(_SVG)
        if name == "id":
            value = f"{prefix}-{value}"
        elif name == "href" and value.startswith("#"):
            value = f"#{prefix}-{value.removeprefix('#')}"
        elif name == "d":
            value = re.sub(r"(\.\d\d)\d+", r"\1", " ".join(value.split()))
        elif name == "style":
            value = as_variables(value.replace(_PAPER, "fill: none", 1) if value.startswith(_PAPER) else value)
        element.set(name, value.replace("url(#", f"url(#{prefix}-"))


VERDICTS = {HOLDS: "holds", FAILS: "fails", UNDECIDED: "open"}


def markdown(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Return the report as Markdown; figures are linked as PNG beside it."""
    parts = [f"# {title}", lead]
    for section in sections:
        parts += [f"{'#' * section.level} {section.title}", *section.text]
        if section.figure is not None:
            parts += _figure(section.figure)
    return "\n\n".join(part for part in parts if part) + "\n"


def html(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Return the report as a page that needs nothing beside it: styles and figures are inside."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    shown = [(section, _body(section), section.figure and _drawing(section.figure)) for section in sections]
    colours = used("".join(str(drawing) for _, _, drawing in shown if drawing))
    style = {"colours": colours, "light": definitions(colours, dark=False), "dark": definitions(colours, dark=True)}
    template = environment.get_template("report.html.j2")
    return template.render(title=title, lead=lead, contents=_contents(sections), sections=shown, **style) + "\n"


def _contents(sections: Sequence[Section]) -> list[tuple[Section, list[Section]]]:
    """Return the page's sections, each with those below it."""
    found: list[tuple[Section, list[Section]]] = []
    for section in sections:
        if section.level == 2:
            found.append((section, []))
        else:
            found[-1][1].append(section)
    return found


def _figure(figure: Figure) -> list[str]:
    if figure.drawn is None:
        return [f"Not drawn: {figure.missing}."]
    return [f"![{figure.name.upper()}: {figure.title}]({figure.name}.png)", figure.drawn.caption]


def _drawing(figure: Figure) -> Markup | str:
    """Return the SVG element, "" for a figure that is missing."""
    if figure.drawn is None:
        return ""
    path = next(p for p in figure.drawn.paths if p.suffix == ".svg")
    label = f"{figure.name.upper()}: {figure.title}"
    about = "The caption below says what is drawn, over which runs, and what was left out."
    return Markup(inline(path, figure.name, label, about))  # made of parsed XML, so it is well-formed and escaped


def _body(section: Section) -> Markup:
    renderer, text = _renderer(), "\n\n".join(section.text)
    return Markup(renderer.render(text, {"title": section.title}))  # raw HTML in the text is escaped, see _renderer


@cache
def _renderer() -> MarkdownIt:
    """Return a Markdown renderer whose tables scroll on their own, and that takes no HTML from the text."""
    found = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "autolink"])
    found.add_render_rule("table_open", _table_open)
    found.add_render_rule("table_close", _table_close)
    found.add_render_rule("th_open", _th_open)
    found.add_render_rule("td_open", _td_open)
    found.add_render_rule("link_open", _nothing)  # links to files beside the page would be dead in a copy
    found.add_render_rule("link_close", _nothing)
    return found


def _table_open(self: Any, tokens: Any, i: int, options: Any, env: Any) -> str:
    return f'<div class="scroll" role="region" aria-label="{Markup.escape(env["title"])}" tabindex="0">\n<table>\n'


def _table_close(self: Any, tokens: Any, i: int, options: Any, env: Any) -> str:
    return "</table>\n</div>\n"


def _th_open(self: Any, tokens: Any, i: int, options: Any, env: Any) -> str:
    return f'<th scope="col"{_right(tokens[i])}>'


def _td_open(self: Any, tokens: Any, i: int, options: Any, env: Any) -> str:
    """Open a cell; a verdict's says which, one of numbers stays on one line."""
    text = tokens[i + 1].content
    if text in VERDICTS:
        return f'<td class="verdict {VERDICTS[text]}">'
    numeric = ' class="number"' if re.fullmatch(r"[-+\d.,%\s\[\]]+", text) else ""
    return f"<td{_right(tokens[i]) or numeric}>"


def _right(token: Any) -> str:
    return ' class="number right"' if "right" in str(token.attrGet("style") or "") else ""


def _nothing(self: Any, tokens: Any, i: int, options: Any, env: Any) -> str:
    return ""
