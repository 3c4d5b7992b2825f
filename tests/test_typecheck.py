"""Annotations are checked while tests run: shapes and types, of arguments and of what is returned."""

from collections.abc import Callable

import jaxtyping
import numpy as np
import pytest
import typecheck
from jaxtyping import Float

from harness.fronts import ei_cost_front
from harness.problem import Evaluation

WRONG = {
    "shapes": lambda: ei_cost_front(np.zeros(3), np.zeros(4)),
    "a data class": lambda: Evaluation(0.5, "1 s", 0.5, 1.0),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", WRONG.values(), ids=WRONG.keys())
def test_the_project_s_own_are_checked(call: Callable[[], object]) -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        call()


def test_what_other_tests_called_does_not_count() -> None:
    for _ in range(2):
        for _ in range(typecheck.FIRST + 1):
            ei_cost_front(np.zeros(3), np.ones(3))
        typecheck.begin()
        with pytest.raises(jaxtyping.TypeCheckError):
            WRONG["shapes"]()


def test_the_first_calls_are_and_some_of_the_others() -> None:
    def thinned(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return x[:: 1 + x.any()]

    decorated = jaxtyping.jaxtyped(typechecker=typecheck.checked)(thinned)
    n, found = typecheck.FIRST + 3 * typecheck.EVERY, []
    for call in range(1, n + 1):
        try:
            decorated(np.ones(4))
        except jaxtyping.TypeCheckError:
            found.append(call)
    assert found == [*range(1, typecheck.FIRST + 1), *range(typecheck.FIRST + typecheck.EVERY, n + 1, typecheck.EVERY)]
    assert len(decorated(np.zeros(4))) == 4
