"""Where the numbers come from: what the records' own specs say, one line per setting."""

import json
from collections import Counter
from pathlib import Path

from harness.records import specs

VARIED = {"dataset", "pipeline", "dataset_config", "pipeline_config", "acq", "method", "rule", "lam", "alpha"}
"""What the study's grid varies and the summary's tables show; the rest is provenance."""


def provenance(results_dir: Path) -> dict[str, Counter[str]]:
    """Return the values, and their block counts, of every setting that the study's grid does not vary."""
    found: dict[str, Counter[str]] = {}
    for spec in specs(results_dir):
        for key in spec.keys() - VARIED:
            found.setdefault(key, Counter())[json.dumps(spec[key], sort_keys=True)] += 1
    return dict(sorted(found.items()))


def lines(settings: dict[str, Counter[str]], most: int = 3) -> list[str]:
    """Return one Markdown line per setting: its values with block counts, or how many there are when many."""
    out = []
    for key, counts in settings.items():
        if len(counts) > most:
            out.append(f"- {key}: {len(counts)} different values")
            continue
        values = [f"`{v}`" + (f" ({n:,} blocks)" if len(counts) > 1 else "") for v, n in sorted(counts.items())]
        out.append(f"- {key}: {', '.join(values)}")
    return out
