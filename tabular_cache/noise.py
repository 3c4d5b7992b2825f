"""The noise of the costs: 2 % of all trainings are measured three times, hours or days apart.

`noise.parquet` holds every single measurement of these, the first included; the tables keep one each.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Float
from scipy.special import gammaincinv

from datasets.errors import BadInput
from harness.problem import OK
from harness.streams import stream
from tabular_cache.schema import AGAIN, MOST_CONFIGS, NOISE_SCHEMA, TIMES, parquet_bytes, read_rows, sha256_of
from tabular_cache.table import NOISE_PARTS, base_manifest, read_part, sidecars

SHARE, REPEATS = 0.02, 3
BANDS_S = (0.0, 0.05, 0.2, 1.0, 5.0, np.inf)  # of cost, by which the noise is shown
MOST_APART = 0.1  # of the first cost, that 90 % of the repeats should keep within
GAP_S = 2 * 3600.0  # at least so long after the last measurement
FILE = "noise.parquet"
_TRAINING = ["problem", "config"]
_CVS = {"raw": "cpu_s", "scaled": "scaled_s"}


@lru_cache(maxsize=256)
def sample(problem: str) -> frozenset[int]:
    """Return the configurations of a problem that belong to the 2 %."""
    drawn = np.flatnonzero(stream(0, "noise sample", problem).random(MOST_CONFIGS) < SHARE)
    return frozenset(drawn.tolist())


def read(folder: Path) -> pa.Table:
    """Return all repeated measurements of a folder of tables, those in parts too; empty when there are none.

    Raises BadInput for a damaged file, one that is not what the manifest says, or one of another schema.
    """
    return pa.concat_tables([_read_base(folder), _read_parts(folder)])


def _read_base(folder: Path) -> pa.Table:
    path = folder / FILE
    if not path.exists():
        return NOISE_SCHEMA.empty_table()
    content = path.read_bytes()
    known = base_manifest(folder).get("noise", {}) if (folder / "manifest.json").exists() else {}
    if known and sha256_of(content) not in known.values():
        raise BadInput(f"{path} is damaged or foreign: its checksum is not that of the manifest; restore it")
    try:
        return read_rows(content, path).cast(NOISE_SCHEMA)
    except (ValueError, pa.ArrowException) as error:
        raise BadInput(f"{path} holds no repeated measurements ({error}): restore or remove it") from None


def _read_parts(folder: Path) -> pa.Table:
    found = sidecars(folder).get(NOISE_PARTS, ())
    added = [read_rows(read_part(folder, part), part["file"]).cast(NOISE_SCHEMA) for part in found]
    return pa.concat_tables([NOISE_SCHEMA.empty_table(), *added])


def belongs(problem: str, line: Mapping[str, Any]) -> bool:
    """Whether a journal line is a measurement of the noise sample: finished, and no repeat of a disturbed training."""
    return line["config"] in sample(problem) and line["status"] == OK and line["purpose"] != AGAIN


def measurement(problem: str, line: dict[str, Any]) -> dict[str, Any]:
    """Return a finished training's journal line as a row of repeated measurements."""
    return {
        "problem": problem,
        **{name: line[name] for name in ("config", "busy", "started")},
        **{name: line[name][-1] for name in TIMES},
    }


def kept(folder: Path, problem: str, lines: list[dict[str, Any]]) -> bytes | None:
    """Return the file's content with the finished measurements of the sample among journal lines; None without any.

    A line that is there already adds nothing.
    """
    rows = [measurement(problem, line) for line in lines if belongs(problem, line)]
    if not rows:
        return None
    both = pa.concat_tables([read(folder), pa.Table.from_pylist(rows, NOISE_SCHEMA)]).to_pandas()
    both = both.drop_duplicates([*_TRAINING, "started"]).sort_values([*_TRAINING, "started"])
    return parquet_bytes(pa.Table.from_pandas(both, NOISE_SCHEMA, preserve_index=False))


def due(
    folder: Path, problems: Collection[str], now: float, journal: Sequence[dict[str, Any]] = ()
) -> list[tuple[str, int]]:
    """Return the (problem, configuration) pairs whose next repeated measurement may be made now.

    journal: measurements (`measurement`) that are in no file yet.
    """
    frame = pd.concat([read(folder).to_pandas(), pa.Table.from_pylist(list(journal), NOISE_SCHEMA).to_pandas()])
    frame = frame[frame["problem"].isin(list(problems))].drop_duplicates([*_TRAINING, "started"])
    seen = frame.groupby(_TRAINING)["started"].agg(["size", "max"])
    ready = seen[(seen["size"] < REPEATS) & (seen["max"] <= now - GAP_S)]
    return [(str(problem), int(config)) for problem, config in ready.index]


def ratios(folder: Path) -> Float[np.ndarray, " n"]:
    """Return c / c_1 of the repeated measurements in parts, c their scaled seconds, c_1 those of the first."""
    frame = read(folder).to_pandas().sort_values("started")
    new = _read_parts(folder).to_pandas()
    ratio = frame["scaled_s"] / frame.groupby(_TRAINING)["scaled_s"].transform("first")
    measurements = [pd.MultiIndex.from_frame(part[[*_TRAINING, "started"]]) for part in (frame, new)]
    in_parts = measurements[0].isin(measurements[1])
    return ratio[frame.duplicated(_TRAINING) & in_parts].to_numpy(dtype=np.float64)


def print_differences(folder: Path) -> None:
    """Say how far costs measured again in parts are from the first measurement, and whether that is too far."""
    ratio = ratios(folder)
    if not len(ratio):
        return
    far = float(np.quantile(np.abs(ratio - 1), 0.9))
    limit = f"{MOST_APART:.0%}"
    verdict = f"more than {limit}: disturbed, or another processor" if far > MOST_APART else f"within {limit}"
    print(
        f"{len(ratio)} repeats: 90 % of them cost within {far:.1%} of the first measurement ({verdict}); "
        f"{np.median(ratio):.3f} times as much in the median"
    )


def spread(folder: Path) -> pd.DataFrame:
    """Return, per repeated training, its mean cost and the coefficient of variation, raw and scaled.

    cv = standard deviation / mean of its measurements (n - 1 in the variance), over its median under normal noise,
    sqrt(median of chi2 with n - 1 degrees of freedom / (n - 1)): 0.67 for two measurements, 0.83 for three, so that the
    median over trainings is the noise's own, however often they were measured. `days` is the time between the first
    and the last in days.
    """
    return _spread(read(folder).to_pandas())


def _spread(measurements: pd.DataFrame) -> pd.DataFrame:
    groups = measurements.groupby(_TRAINING)
    table = pd.DataFrame(
        {
            "n": groups.size(),
            "cost_s": groups["scaled_s"].mean(),
            "cv_raw": groups["cpu_s"].std() / groups["cpu_s"].mean(),
            "cv_scaled": groups["scaled_s"].std() / groups["scaled_s"].mean(),
            "days": (groups["started"].max() - groups["started"].min()) / 86400.0,
        }
    )
    table = table[table["n"] > 1].reset_index()
    free = table["n"] - 1
    few = np.sqrt(2 * gammaincinv(free / 2, 0.5) / free)
    return table.assign(cv_raw=table["cv_raw"] / few, cv_scaled=table["cv_scaled"] / few)


def _medians(found: pd.DataFrame) -> dict[str, float]:
    return {f"median cv % ({name})": 100 * float(found[f"cv_{of}"].median()) for of, name in _CVS.items()}


def by_cost(folder: Path) -> pd.DataFrame:
    """Return the noise by bands of cost and for all: trainings, of them measured `REPEATS` times or more, and medians.

    The medians of cv_raw and cv_scaled (`spread`) are in percent.
    """
    found = spread(folder)
    bands = {}
    for low, high in pairwise(BANDS_S):
        name = f"{low:g} s and more" if high == np.inf else f"{low:g} to {high:g} s"
        bands[name] = found[found["cost_s"].between(low, high, inclusive="left")]
    rows = [
        {
            "cost": name,
            "trainings": len(part),
            f"{REPEATS} times": int((part["n"] >= REPEATS).sum()),
            **_medians(part),
        }
        for name, part in (bands | {"all": found}).items()
        if len(part)
    ]
    return pd.DataFrame(rows)


def by_processor(folder: Path, campaigns: Sequence[Mapping[str, Any]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the noise on each kind of processor, and between each two of them.

    The former as `by_cost` has it, of trainings measured twice or more there. The latter of trainings measured on both:
    the median of the ratio of their mean scaled seconds, and its 5 % and 95 % quantiles. campaigns: of the manifest;
    a measurement was made on the processor whose reference training was timed nearest to it.
    """
    frame = read(folder).to_pandas()
    frame["processor"] = _processors(campaigns, frame["started"].to_numpy(dtype=np.float64))
    rows = []
    for processor, own in frame.groupby("processor"):
        found = _spread(own)
        rows.append({"processor": processor, "trainings": len(found), **_medians(found)})
    means, pairs = frame.groupby([*_TRAINING, "processor"])["scaled_s"].mean().unstack(), []
    for one, other in combinations(means.columns, 2):
        ratio = (means[one] / means[other]).dropna()
        if len(ratio):
            low, median, high = ratio.quantile([0.05, 0.5, 0.95])
            pairs.append({"processors": f"{one} / {other}", "trainings": len(ratio),
                          "median ratio": median, "5 %": low, "95 %": high})  # fmt: skip
    return pd.DataFrame(rows), pd.DataFrame(pairs)


def _processors(campaigns: Sequence[Mapping[str, Any]], at: Float[np.ndarray, " n"]) -> np.ndarray:
    """Return the processors of the reference timings nearest to these points of time."""
    timed = sorted(
        (float(timing[0]), str(campaign["cpu"])) for campaign in campaigns for timing in campaign["reference"]
    )
    if not timed:  # a worker was lost in each
        return np.full(len(at), "unknown", dtype=object)
    when, names = np.array([time for time, _ in timed]), np.array([name for _, name in timed], dtype=object)
    after = np.clip(np.searchsorted(when, at), 1, len(when) - 1) if len(when) > 1 else np.zeros(len(at), np.int64)
    before = np.maximum(after - 1, 0)
    return names[np.where(at - when[before] < when[after] - at, before, after)]
