"""Figures for the inside of a page: one SVG element, its ids its own, its colours the page's, no caption, no paper."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from analysis.report.colours import as_variables

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
