import numpy as np

from harness.streams import seed_sequence, stream


def test_streams_are_reproducible_and_independent_of_each_other() -> None:
    a = stream(3, "initial", "abalone/clean").random(5)
    assert np.array_equal(a, stream(3, "initial", "abalone/clean").random(5))
    others = [(4, "initial", "abalone/clean"), (3, "candidates", "abalone/clean"), (3, "initial", "wine/clean")]
    for seed, *names in others:
        assert not np.array_equal(a, stream(seed, *names).random(5))


def test_names_are_not_glued_together() -> None:
    assert seed_sequence(0, "ab", "c").entropy != seed_sequence(0, "a", "bc").entropy


def test_streams_are_the_same_everywhere() -> None:
    assert stream(0, "golden").integers(0, 1000, 4).tolist() == GOLDEN


GOLDEN = [630, 307, 851, 896]
