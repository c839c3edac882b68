from __future__ import annotations

import math

import numpy as np
import pytest

from training.statistics import half_width_95, paired_difference


def test_half_width_is_1_96_standard_errors_of_the_mean():
    # 1, 2, 3, 4: variance 5/3 with n - 1, so the standard error of the mean is sqrt(5 / 12)
    assert half_width_95(np.array([1.0, 2.0, 3.0, 4.0])) == pytest.approx(1.959964 * math.sqrt(5 / 12))


def test_equal_values_have_no_spread():
    assert half_width_95(np.full(5, 7.0)) == 0.0


@pytest.mark.parametrize("values", [[], [3.0]])
def test_fewer_than_two_values_tell_no_interval(values):
    assert math.isnan(half_width_95(np.array(values)))


def test_pairs_are_compared_episode_by_episode():
    baseline = np.array([10.0, 200.0, 3000.0])
    mean, half = paired_difference(baseline + np.array([1.0, 2.0, 3.0]), baseline)
    assert mean == pytest.approx(2.0)
    assert half == pytest.approx(1.959964 / math.sqrt(3))  # the episodes differ by thousands, the differences by 1


def test_a_cheaper_policy_has_a_negative_difference():
    assert paired_difference(np.array([1.0, 1.0]), np.array([2.0, 4.0]))[0] == -2.0


def test_the_interval_covers_the_true_mean_about_95_times_of_100():
    rng = np.random.default_rng(0)
    samples = rng.normal(10.0, 3.0, size=(2000, 50))
    covered = [abs(sample.mean() - 10.0) <= half_width_95(sample) for sample in samples]
    assert 0.92 < np.mean(covered) < 0.97
