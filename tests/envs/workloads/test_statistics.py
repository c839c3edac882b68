"""How traces and worlds are put into numbers, on series whose numbers are known."""

from __future__ import annotations

import numpy as np
import pytest

from envs.workloads.statistics import correlation_time_s, correlations, index_of_dispersion, log_normal, top_share


def test_log_normal_finds_the_parameters_it_was_drawn_from() -> None:
    values = np.random.default_rng(0).lognormal(np.log(5), 1.5, 100_000)
    figures = log_normal(np.append(values, 0.0), "x", "mbps")  # zeros have no logarithm
    assert figures["x.lognormal_median_mbps"] == pytest.approx(5, rel=0.02)
    assert figures["x.lognormal_sigma"] == pytest.approx(1.5, rel=0.02)


def test_top_share_of_equal_and_of_one_sided_values() -> None:
    assert top_share(np.ones(50)) == pytest.approx(0.1)
    assert top_share(np.append(np.zeros(19), 1.0)) == 1.0


def test_correlation_time_of_a_first_order_process() -> None:
    rng, decay = np.random.default_rng(0), np.exp(-1 / 20)  # 20 steps
    series = np.zeros((50_000, 2))
    noise = rng.normal(size=series.shape)
    for i in range(1, len(series)):
        series[i] = decay * series[i - 1] + noise[i]
    assert correlation_time_s(series, 3.0) == pytest.approx([60, 60], rel=0.15)


def test_correlation_time_of_a_short_series_does_not_wrap_round() -> None:
    ramp = np.arange(20.0) - 9.5
    by_definition = np.correlate(ramp, ramp, "full")[19:] / (ramp @ ramp)
    after = int(np.argmax(by_definition < 1 / np.e))
    assert after - 1 < correlation_time_s(ramp[:, None], 1.0)[0] < after


def test_constant_series_has_no_correlation_time() -> None:
    assert np.isnan(correlation_time_s(np.ones((10, 1)), 1.0)[0])


def test_dispersion_is_one_for_independent_arrivals_and_the_group_size_for_groups() -> None:
    arrivals_s = np.random.default_rng(0).uniform(0, 100_000, 50_000)
    assert index_of_dispersion(arrivals_s, 10) == pytest.approx(1, rel=0.05)
    assert index_of_dispersion(np.repeat(arrivals_s, 8), 10) == pytest.approx(8, rel=0.05)


def test_correlation_of_columns_one_by_one() -> None:
    rng = np.random.default_rng(0)
    a, noise = rng.normal(size=(2, 20_000, 1))
    found = correlations(np.hstack([a, a, a]), np.hstack([2 * a + 1, -a, 0.6 * a + 0.8 * noise]))
    assert found == pytest.approx([1.0, -1.0, 0.6], abs=0.02)
    assert np.isnan(correlations(a, np.ones_like(a))[0])
