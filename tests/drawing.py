"""Figures that are made and not drawn."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def not_drawing(laid_out: bool = False) -> Iterator[None]:
    """Make figures without drawing them: for tests of what stands beside them, of which that would take most time.

    laid_out: place all that is in them, which finds what cannot be drawn, but write no image.
    """
    from matplotlib.figure import Figure

    from analysis import plotting

    def rendered(figure: Figure) -> dict[str, bytes]:
        assert figure.axes
        if laid_out:
            figure.draw_without_rendering()
        return {"png": b"not drawn", "svg": b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><g/></svg>'}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plotting, "rendered", rendered)
        yield
