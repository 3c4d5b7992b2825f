"""Equal points are found by their bits, in any number of dimensions."""

import numpy as np
import pytest

from harness.arrays import HeldPoints, point_keys
from harness.streams import stream


@pytest.mark.parametrize("d", [1, 7, 16, 17, 40])
def test_points_that_differ_in_one_coordinate_have_other_keys(d: int) -> None:
    points = np.repeat(stream(0, "test keys").random((1, d)), d + 1, axis=0)
    points[np.arange(d), np.arange(d)] += 0.25
    keys, held = point_keys(points), HeldPoints(2 * d + 2, d)
    assert len(set(keys.tolist())) == d + 1
    assert np.array_equal(point_keys(np.asfortranarray(points[::-1])), keys[::-1])
    assert held.hold(np.concatenate([points, points])).tolist() == 2 * list(range(d + 1))
