"""The report as one HTML page, and as Markdown."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from analysis.claims.condition import FAILS, HOLDS, UNDECIDED
from analysis.report.colours import definitions, used
from analysis.report.parts import Figure, Section
from analysis.report.svg import inline

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
