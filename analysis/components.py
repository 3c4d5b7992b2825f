"""Whose runs an analysis looks at: one evaluator, utility, surrogate and cost model, never a mix."""

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING

from analysis import REFERENCE
from datasets.errors import BadInput

if TYPE_CHECKING:  # the command line reads `REFERENCE` before it needs pandas
    import pandas as pd


def choose(
    frame: "pd.DataFrame", wanted: Mapping[str, str], free: Container[str] = ()
) -> "tuple[pd.DataFrame, dict[str, str]]":
    """Return the evaluations of one choice of components, and that choice; those `free` may be mixed.

    Component by component: the one `wanted`, else the only one there is, else the reference. Raises BadInput
    for a component that no run has, or when there are several and the reference is not among them.
    """
    chosen: dict[str, str] = {}
    for component, reference in REFERENCE.items():
        if component in free:
            continue
        names = sorted(str(name) for name in frame[component].unique())
        name = wanted.get(component, names[0] if len(names) == 1 else reference)
        if name not in names:
            so_far = " with " + ", ".join(f"{k}={v}" for k, v in chosen.items()) if chosen else ""
            raise BadInput(f"no runs of {component}={name}{so_far}; the records hold: {', '.join(names)}")
        frame = frame[frame[component] == name]
        chosen[component] = name
    return frame, chosen


def only(frame: "pd.DataFrame", wanted: Mapping[str, str]) -> "pd.DataFrame":
    """Return the evaluations whose components are those `wanted`, whatever the others; raises BadInput for none."""
    for component, name in wanted.items():
        names = sorted(str(found) for found in frame[component].unique())
        if name not in names:
            raise BadInput(f"no runs of {component}={name}; the records hold: {', '.join(names)}")
        frame = frame[frame[component] == name]
    return frame
