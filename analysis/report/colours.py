"""Colours of figures on a light and on a dark page: each becomes a variable of the page's style with two values."""

import colorsys
import re
from collections.abc import Iterable

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
