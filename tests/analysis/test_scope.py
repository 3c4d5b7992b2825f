"""What sentences say that numbers were taken over."""

import pandas as pd

from analysis.captions import scope, study_values

CELL = ["dataset", "pipeline", "seed"]


def cells(*rows: tuple[str, str, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=CELL)


def test_a_full_grid_is_problems_times_seeds() -> None:
    full = cells(*((d, "clean", s) for d in ("wind", "wine", "a1a") for s in (0, 1)))
    assert scope(full, "replay") == "2 of 144 problems and 1 outside the study, 2 seeds (replay)"
    assert scope(pd.concat([full, full]), "replay") == scope(full, "replay"), "runs of several methods"


def test_a_ragged_grid_says_how_many_pairs_there_are() -> None:
    ragged = cells(("wind", "clean", 0), ("wind", "clean", 1), ("wine", "clean", 0), ("wine", "onehot", 0))
    assert scope(ragged, "live") == "3 of 144 problems, 2 seeds, 4 problem-seed pairs of 1 to 2 seeds each (live)"
    apart = cells(("wind", "clean", 0), ("wine", "clean", 1))
    assert scope(apart, "live") == "2 of 144 problems, 2 seeds, 2 problem-seed pairs of 1 seed each (live)"


def test_values_of_other_problems_do_not_mix_with_the_studys() -> None:
    every = cells(("wind", "clean", 0), ("a1a", "clean", 0), ("wine", "none", 0))
    values = pd.Series([1.0, 2.0, 3.0], index=pd.MultiIndex.from_frame(every))
    assert study_values(values).tolist() == [1.0]
    pd.testing.assert_series_equal(study_values(values[1:]), values[1:])
