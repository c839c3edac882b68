"""The benchmark of the simulators: medians over windows, and every bar that its goals name."""

from __future__ import annotations

from statistics import median

import pytest

from benchmarks import env
from benchmarks.bars import goals


class Steady:
    """Plays at the rates given, one window after the other."""

    clusters = 8

    def __init__(self, *rates: float) -> None:
        self.rates = iter(rates)

    def rate(self, seconds: float) -> float:
        return next(self.rates)


RATES = {20: (100.0, 90.0, 1.0, 110.0, 95.0), 50: (40.0,) * 5, 100: (20.0, 22.0, 2.0, 21.0, 19.0), 200: (10.0,) * 5}


@pytest.fixture
def bars(monkeypatch):
    """One window of five fell into a pause of the host."""
    monkeypatch.setattr(env, "Batch", lambda scenario, clusters: Steady(*RATES[int(scenario.nodes.count.high)]))
    monkeypatch.setattr(env, "Reference", lambda scenario: Steady(1.0, 1.0, 1.0, 1.0, 1.0))
    monkeypatch.setattr(env, "_memory_gb", lambda scenario, group: 0.5)
    return {bar.bar: bar for bar in env.run(quick=True)}


def test_every_goal_of_the_benchmark_is_measured(bars):
    assert set(bars) == {bar for bar, goal in goals().items() if goal.benchmark == "env"}


def test_speed_is_the_median_of_the_windows_and_the_spread_is_told(bars):
    bar = bars["batch_decisions_per_s_20_nodes"]
    assert bar.value == 95.0
    assert (bar.beside["windows"], bar.beside["lowest"], bar.beside["highest"]) == (5, 1.0, 110.0)


def test_ratio_and_growth_are_medians_over_rounds_not_ratios_of_medians(bars):
    assert bars["batch_over_reference"].value == 95.0
    slopes = [env.growth({nodes: rates[window] for nodes, rates in RATES.items()}) for window in range(5)]
    assert bars["cost_growth_exponent"].value == pytest.approx(median(slopes))


def test_growth_of_a_decision_that_takes_as_long_as_there_are_nodes_is_one():
    assert env.growth({20: 1 / 20, 50: 1 / 50, 200: 1 / 200}) == pytest.approx(1.0)
