from __future__ import annotations

import numpy as np
import pytest

from agent.heuristics.normalise import normalise_to_highest

ALL = np.ones(3, dtype=np.bool_)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([50, 25, 0], [100, 50, 0]),
        ([0, 0, 0], [0, 0, 0]),
        ([-5, -1, 0], [0, 0, 0]),
        ([-50, 100, 200], [-25, 50, 100]),
        ([np.nan, 10, 5], [np.nan, 100, 50]),
    ],
)
def test_highest_becomes_100_and_no_highest_all_zero(values, expected) -> None:
    assert normalise_to_highest(np.array(values, float), ALL) == pytest.approx(expected, nan_ok=True)


def test_highest_is_that_of_the_candidates_of_each_cluster() -> None:
    values = np.array([[10.0, 20.0, 40.0], [10.0, 20.0, 40.0]])
    candidates = np.array([[True, True, False], [True, False, True]])
    scaled = normalise_to_highest(values, candidates)
    assert scaled[0, :2] == pytest.approx([50, 100])
    assert scaled[1, [0, 2]] == pytest.approx([25, 100])
