from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import InputError
from envs.workloads.series import (
    BackgroundSeries,
    choose,
    filled_forward,
    pivot,
    refuse_repeats,
    resample,
    steps_for,
    window,
)


def test_samples_of_one_cell_are_averaged_and_cells_without_are_unknown() -> None:
    grid = pivot(np.array([0, 0, 1]), np.array([0, 0, 1]), np.array([1.0, 3.0, 5.0]), (2, 2))
    np.testing.assert_array_equal(grid, [[2.0, np.nan], [np.nan, 5.0]])


def test_gaps_repeat_the_last_sample_and_leading_gaps_the_first() -> None:
    nan = np.nan
    values, gaps = filled_forward(np.array([[nan, 1], [2, nan], [nan, nan], [4, 5]], dtype=float))
    assert values.T.tolist() == [[2, 2, 2, 4], [1, 1, 1, 5]]
    assert gaps.sum() == 4


def test_finer_steps_interpolate_and_the_last_value_holds() -> None:
    values = np.array([[0.0], [10.0]])
    assert resample(values, 300, 100, 500)[:, 0].tolist() == pytest.approx([0, 10 / 3, 20 / 3, 10, 10, 10])


def test_resampled_background_covers_the_horizon() -> None:
    series = BackgroundSeries(300.0, *(np.full((3, 2), value) for value in (0.1, 0.2, 0.3)))
    finer = series.resampled(10.0, 600.0)
    assert finer.tx_ratio.shape == (61, 2)
    assert (finer.cpu_ratio[0, 0], finer.rx_ratio[0, 0], finer.tx_ratio[0, 0]) == (0.1, 0.2, 0.3)


@given(st.integers(1, 30), st.integers(1, 100), st.integers(0, 2**32))
def test_window_never_jumps_and_stays_inside_the_trace(length: int, steps: int, seed: int) -> None:
    rows = window(length, steps, np.random.default_rng(seed))
    assert len(rows) == steps
    assert rows.min() >= 0
    assert rows.max() < length
    assert (np.abs(np.diff(rows)) <= 1).all()


@given(st.integers(1, 20), st.integers(0, 50), st.integers(0, 2**32))
def test_every_column_is_used_before_any_is_used_again(available: int, wanted: int, seed: int) -> None:
    counts = np.bincount(choose(available, wanted, np.random.default_rng(seed)), minlength=available)
    assert counts.sum() == wanted
    assert counts.max() - counts.min() <= 1


def test_steps_include_the_last_moment() -> None:
    assert steps_for(600, 300) == 3
    assert steps_for(601, 300) == 4


def test_repeated_cell_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"x.csv: vm 9 has step 1 more than once"):
        refuse_repeats("x.csv", np.array([0, 1, 1]), np.array([1, 1, 1]), ("vm 7", "vm 9"), 2)
