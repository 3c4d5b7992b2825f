"""What every component of an optimizer has in common: surrogate, cost model, utility, cost rule, design and so on.

Any class with the required methods counts as a component; `complete` gives an object of it the defaults of the others.
"""

import inspect
from abc import ABC
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, TypeVar

from harness.errors import BadInput
from harness.problem import Problem

T = TypeVar("T")


class Component(ABC):  # noqa: B024 - its subclasses have the abstract methods
    """A component of an optimizer: as in `collections.abc`, any class with the required methods counts as one."""

    @classmethod
    def __subclasshook__(cls, other: Any) -> Any:
        if Component not in cls.__bases__:
            return NotImplemented
        return all(callable(getattr(other, name, None)) for name in cls.__abstractmethods__) or NotImplemented

    stateless: ClassVar[bool] = False
    """Whether it keeps nothing from one step for the next, so that it `forgets` at any."""

    def forgets(self, n: int) -> bool:
        """Return whether its answers from n observations on depend on these alone, not on what it was asked before.

        Then a run can go on from a record of its first n evaluations.
        """
        return self.stateless


class ProblemAware:
    """A component that may know something before a run: surrogate, cost model, prior mean, design."""

    def start(self, problem: Problem) -> None:
        """Take the problem before its first evaluation; raises BadInput for one that cannot be served."""

    def fingerprint(self, problem: Problem) -> str | None:
        """Return a hash of all that is known before `problem`, None if nothing; raises BadInput as `start`."""
        self.start(problem)
        return None


def asks_for_problem(kind: type) -> bool:
    """Return whether a class has a `start` or `fingerprint` of its own, for which a problem has to be opened."""
    shared = {name: getattr(ProblemAware, name) for name in ("start", "fingerprint")}
    return any(getattr(kind, name, plain) is not plain for name, plain in shared.items())


def complete(component: Any, base: Callable[..., T]) -> T:
    """Return `component` as a `base`: an object that only has the required methods gets the defaults of the others.

    base: an abstract class, such as a subclass of `Component`.
    Raises BadInput for a class instead of an object, for one that lacks a required method, and for one whose method
    takes other arguments than it is given.
    """
    if isinstance(component, type):
        raise BadInput(f"{component.__name__} is a class: give an object of it, {component.__name__}(...)")
    own: Any = type(component)
    _check_arguments(own, base)
    if base in own.__mro__:
        return component  # type: ignore[no-any-return]
    name, kind = own.__name__, f"{base.__module__}.{base.__name__}"
    for method in sorted(getattr(base, "__abstractmethods__", ())):
        if not callable(getattr(component, method, None)):
            raise BadInput(f"{name} needs a method `{method}`, as {kind} has it")
    try:
        object.__setattr__(component, "__class__", _derived(own, base))
    except TypeError:  # a class with slots, or one that is not written in Python
        raise BadInput(f"{name} has to derive from {kind}") from None
    return component  # type: ignore[no-any-return]


@cache
def _check_arguments(own: Any, base: Any) -> None:
    """Raise BadInput where a required method of `base` cannot be called on an `own` with the arguments it is given."""
    for method in sorted(getattr(base, "__abstractmethods__", ())):
        if inspect.isfunction(found := inspect.getattr_static(own, method, None)):
            wanted, taken = (list(inspect.signature(one).parameters) for one in (getattr(base, method), found))
            try:
                inspect.signature(found).bind(*wanted)
            except TypeError:
                kind = f"{base.__module__}.{base.__name__}"
                raise BadInput(
                    f"{own.__name__}.{method} must take ({', '.join(wanted)}), as {kind} has it, not "
                    f"({', '.join(taken)})"
                ) from None


@cache
def _derived(own: Any, base: Any) -> Any:
    return type(own.__name__, (own, base), {"__module__": own.__module__})
