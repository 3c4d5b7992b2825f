"""Checks of the numbers that users set: one clear line for what is wrong."""

import math
from numbers import Real

from datasets.errors import BadInput


def number(name: str, value: object, allowed: str, low: float, high: float = math.inf) -> float:
    """Return `value` as a float if it is a finite number in [low, high]; else raise BadInput."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise BadInput(f"{name} must be {allowed}, got {value}")
    if not (math.isfinite(value) and low <= float(value) <= high):
        raise BadInput(f"{name} must be {allowed}, got {value}")
    return float(value)


def whole(name: str, value: object, least: int, most: int | None = None) -> int:
    """Return `value` if it is a whole number in [least, most]; else raise BadInput."""
    allowed = f"a whole number >= {least}" if most is None else f"a whole number from {least} to {most}"
    if not float(number(name, value, allowed, least, math.inf if most is None else most)).is_integer():
        raise BadInput(f"{name} must be {allowed}, got {value}")
    return int(number(name, value, allowed, least))


def flag(name: str, value: object) -> bool:
    """Return `value` if it is true or false; else raise BadInput."""
    if not isinstance(value, bool):
        raise BadInput(f"{name} must be true or false, got {value}")
    return value


def required(name: str, value: object, needs: str) -> object:
    """Return `value`, or raise BadInput if it is not set."""
    if value is None:
        raise BadInput(f"{name} is not set: {needs}")
    return value
