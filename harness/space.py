"""The search space: parameters, their ranges and scales, and the unit cube; the study's are XGBoost's seven.

Every model of this project sees points of the unit cube [0, 1]^d; trainings and tables see native values.
Native values are float32-representable and integers are whole, so that a value survives a table and the
round trip native -> unit -> native exactly. Source: Guinet et al. 2020 (analysis/STUDY.md).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from harness.errors import BadInput, flag, number, whole

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Parameter:
    """One hyperparameter: range [low, high], ``log`` or ``linear`` scale, integer or real; raises BadInput for none."""

    name: str
    low: float
    high: float
    log: bool = False
    integer: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise BadInput(f"a parameter needs a name, a text that is not empty, got {self.name!r}")
        for end in ("low", "high"):
            number(
                f"{self.name}: {end}", getattr(self, end), "a number, finite in single precision", -_LARGEST, _LARGEST
            )
        for scale in ("log", "integer"):
            flag(f"{self.name}: {scale}", getattr(self, scale))
        ends = f"{self.name}: [{self.low}, {self.high}]"
        if not self.low < self.high or (self.log and self.low <= 0):
            raise BadInput(f"{ends} is no range on this scale")
        if self.integer and not (float(self.low).is_integer() and float(self.high).is_integer()):
            raise BadInput(f"{ends} must begin and end with whole numbers, as the parameter has no others")
        if not np.less(*self.ends):
            raise BadInput(f"{ends} holds less than two numbers of single precision: subtract what they have in common")

    @property
    def ends(self) -> tuple[np.float32, np.float32]:
        """The lowest and the highest native value: the float32 nearest to the ends of the range.

        Of whole numbers, and of what has to stay above 0, the nearest inside it.
        """
        low, high = np.float32(self.low), np.float32(self.high)
        if (self.integer and float(low) < self.low) or (self.log and not low):
            low = np.nextafter(low, np.float32(np.inf))
        if self.integer and float(high) > self.high:
            high = np.nextafter(high, np.float32(-np.inf))
        return low, high


@dataclass(frozen=True)
class SearchSpace:
    """A box of parameters and its map to the unit cube; raises BadInput for none, or two of one name.

    u = (s(x) - s(low)) / (s(high) - s(low)) with s = log or identity, per dimension.
    """

    parameters: tuple[Parameter, ...]

    def __post_init__(self) -> None:
        given = self.parameters
        if not isinstance(given, tuple | list) or not all(isinstance(one, Parameter) for one in given):
            raise BadInput(
                f"a space is made of a tuple of parameters, SearchSpace((Parameter(...), ...)), got {given!r}"
            )
        object.__setattr__(self, "parameters", tuple(given))
        if not self.parameters or len(set(self.names)) < len(self.parameters):
            raise BadInput(f"a space needs parameters of different names, got {', '.join(self.names) or 'none'}")

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters' names, in the order of the columns."""
        return tuple(p.name for p in self.parameters)

    def __len__(self) -> int:
        return len(self.parameters)

    def to_unit(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Map native values to the unit cube; raises BadInput for values outside the box, and fractions of integers."""
        x = self._columns(x)
        unit = np.empty_like(x)
        for j, p in enumerate(self.parameters):
            low, high = p.ends
            with np.errstate(over="ignore"):
                rounded = x[:, j].astype(np.float32)  # as configurations hold them: 0.1 is no lower than float32's 0.1
            inside = (rounded >= low) & (rounded <= high)
            if not inside.all():
                bad = x[:, j][~inside][0]
                raise BadInput(f"{p.name} = {bad:g} is outside [{p.low:g}, {p.high:g}]")
            if p.integer and (fraction := rounded != np.rint(rounded)).any():
                raise BadInput(f"{p.name} must be a whole number, got {x[:, j][fraction][0]:g}")
            unit[:, j] = _rescale(x[:, j], p)
        return np.clip(unit, 0.0, 1.0)

    def from_unit(self, unit: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Map the unit cube to native values, integers rounded and reals rounded to float32.

        Raises BadInput for points outside it.
        """
        from harness.normal import exp  # compiled: not where a space is only looked at

        unit = self._columns(unit)
        if not ((unit >= 0) & (unit <= 1)).all():
            raise BadInput("unit-cube points must lie in [0, 1]")
        x = np.empty_like(unit)
        for j, p in enumerate(self.parameters):
            a, b = (math.log(p.low), math.log(p.high)) if p.log else (p.low, p.high)
            value = a + unit[:, j] * (b - a)
            value = exp(value) if p.log else value
            x[:, j] = np.clip(np.rint(value) if p.integer else value, *p.ends).astype(np.float32)
        return x

    def _columns(self, points: Any) -> Float[np.ndarray, "n d"]:
        """Return the points as float64; raises BadInput unless each has a value for each parameter."""
        try:
            points = np.asarray(points, dtype=np.float64)
        except (TypeError, ValueError):
            raise BadInput(f"points must be an array of numbers, got {points!r}"[:200]) from None
        if points.ndim != 2 or points.shape[1] != len(self):
            columns = f"columns for {', '.join(self.names)}"
            raise BadInput(f"points must have the shape (n, {len(self)}), with {columns}; got {points.shape}")
        return points

    def snap(self, unit: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Move unit-cube points onto points that a native configuration can represent."""
        return self.to_unit(self.from_unit(unit))

    def sobol(self, n: int, seed: int | np.random.SeedSequence, start: int = 0) -> Float[np.ndarray, "n d"]:
        """Return points start .. start+n-1 of the scrambled Sobol sequence of `seed`, in the unit cube."""
        return sobol(len(self), n, seed, start)


def sobol(d: int, n: int, seed: int | np.random.SeedSequence, start: int = 0) -> Float[np.ndarray, "n d"]:
    """Return points start .. start+n-1 of the scrambled Sobol sequence of `seed` in d dimensions, in [0, 1).

    Raises BadInput for n < 1, or a start below 0.
    """
    n, start = whole("n", n, 1), whole("start", start, 0)
    from scipy.stats import qmc  # takes most of a second to import, and replay needs no new points

    engine = qmc.Sobol(d, scramble=True, rng=np.random.Generator(np.random.PCG64(seed)))
    size = 1 << max(0, (start + n - 1).bit_length())  # a power of two, as the sequence wants
    return np.asarray(engine.random(size)[start : start + n])


def _rescale(x: Float[np.ndarray, " n"], p: Parameter) -> Float[np.ndarray, " n"]:
    from harness.normal import log  # compiled: not where a space is only looked at

    if p.log:
        return log(x / p.low) / math.log(p.high / p.low)
    return np.asarray((x - p.low) / (p.high - p.low))


XGBOOST_SPACE = SearchSpace(
    (
        Parameter("n_estimators", 1, 256, log=True, integer=True),
        Parameter("learning_rate", 0.01, 1.0, log=True),
        Parameter("gamma", 0.0, 0.1),
        Parameter("reg_alpha", 1e-3, 1e3, log=True),
        Parameter("reg_lambda", 1e-3, 1e3, log=True),
        Parameter("subsample", 0.01, 1.0),
        Parameter("max_depth", 1, 16, integer=True),
    )
)
