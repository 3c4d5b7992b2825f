"""The checks of annotations while tests run, jaxtyping's shapes among them: in each test the first calls of a function,
and one in twenty later.

To check all calls takes three quarters of the time of tests that make runs of a hundred steps, which do the same many
times over. A function within another is made anew at each call of that, so only the first few of its kind are checked.
"""

import functools
import inspect
from collections import Counter
from collections.abc import Callable
from types import CodeType
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype

FIRST, EVERY, OF_A_KIND = 40, 20, 10
checked = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float to it
_whole = jaxtyping.jaxtyped
_made = Counter[CodeType]()
_test = 0


def begin() -> None:
    """Begin a test: what others have called does not count."""
    global _test
    _test += 1
    _made.clear()


def _sampled(function: Callable[..., Any], made: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """Return the function, some of whose calls go to the checked one, which is made when it is first needed."""
    calls, within, careful = 0, _test, None

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls, within, careful
        calls, within = (calls + 1 if within == _test else 1), _test
        if calls > FIRST and calls % EVERY:
            return function(*args, **kwargs)
        careful = careful or made()
        return careful(*args, **kwargs)

    return call


def _jaxtyped(*, typechecker: Any) -> Callable[[Any], Any]:
    """Stand for `jaxtyping.jaxtyped`, which decorates all functions and classes of the project when tests import it."""

    def decorate(found: Any) -> Any:
        if inspect.isfunction(found):
            _made[found.__code__] += 1
            if _made[found.__code__] > OF_A_KIND:
                return found
            return _sampled(found, lambda: _whole(found, typechecker=typechecker))
        own = found.__dict__.get("__init__")
        found = _whole(found, typechecker=typechecker)
        if inspect.isfunction(own) and found.__init__ is not own:  # a data class's
            careful = found.__init__
            found.__init__ = _sampled(own, lambda: careful)
        return found

    return decorate


jaxtyping.jaxtyped = _jaxtyped  # type: ignore[assignment]
