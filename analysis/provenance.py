"""Where the numbers come from: what the records' own specs say, one line per setting."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

VARIED = {"dataset", "pipeline", "dataset_config", "pipeline_config", "acq", "method", "rule", "lam", "alpha"}
"""What the study's grid varies and the summary's tables show; the rest is provenance."""


def provenance(made: Sequence[Mapping[str, Any]]) -> dict[str, Counter[str]]:
    """Return the values, and their block counts, of every setting in the specs that the study's grid does not vary.

    Blocks without a setting that others have count under "".
    """
    return {
        key: Counter(json.dumps(spec[key], sort_keys=True) if key in spec else "" for spec in made)
        for key in sorted({key for spec in made for key in spec.keys() - VARIED})
    }


def _last_without(item: tuple[str, int]) -> tuple[bool, str]:
    return not item[0], item[0]


def lines(settings: dict[str, Counter[str]], most: int = 3) -> list[str]:
    """Return one Markdown line per setting: its values with block counts, or how many there are when many."""
    out = []
    for key, counts in settings.items():
        if len(counts) > most:
            out.append(f"- {key}: {len(counts)} different values")
            continue
        shown = {f"`{value}`" if value else "not set": n for value, n in sorted(counts.items(), key=_last_without)}
        values = [value + (f" ({n:,} blocks)" if len(counts) > 1 else "") for value, n in shown.items()]
        out.append(f"- {key}: {', '.join(values)}")
    return out
