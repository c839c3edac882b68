"""Rates, windows and running means as Prometheus and a sidecar would compute them."""

from __future__ import annotations

import math

import pytest

from envs.dynamics.scraping import SMOOTHING, counter_rate, in_window, smoothed


def test_rate_is_the_rise_of_the_counter_over_the_time_between_the_samples():
    # 100 Mbps for 20 s and then 400 Mbps for 10 s
    assert counter_rate(6000.0, 0.0, 40.0, 10.0) == 200.0


@pytest.mark.parametrize(
    ("sampled_at_s", "inside"), [(100.0, True), (70.0, True), (40.0, True), (39.9, False), (100.1, False)]
)
def test_window_reaches_from_the_query_back_by_its_length(sampled_at_s, inside):
    assert in_window(sampled_at_s, queried_at_s=100.0, window_s=60.0) == inside


def test_sample_at_the_start_of_the_window_survives_rounding():
    assert in_window(0.1 * 3, queried_at_s=0.1 * 3 + 0.7, window_s=0.7)


def test_first_observation_stands_alone():
    assert smoothed(math.nan, 42.0) == 42.0


def test_later_observations_move_the_mean_by_their_weight():
    assert smoothed(10.0, 20.0) == pytest.approx(10.0 + SMOOTHING * 10.0)
    assert smoothed(10.0, 10.0) == 10.0


def test_running_mean_stays_between_the_observations_and_reaches_a_constant_one():
    known = math.nan
    for observed in (5.0, 9.0, 7.0, *[8.0] * 40):
        known = smoothed(known, observed)
        assert 5.0 <= known <= 9.0
    assert known == pytest.approx(8.0, abs=1e-4)
