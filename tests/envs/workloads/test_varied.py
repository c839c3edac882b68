"""Loads that each move in their own way, as those of real clusters do."""

import numpy as np
import pytest

from envs.workloads.scenario import MOST_BACKGROUND
from envs.workloads.synthetic import make_tape
from envs.workloads.varied import is_varied
from tests.tapes import different
from training.worlds import with_loads

LOADS = {"app_load", "background_cpu_ratio", "background_rx_ratio", "background_tx_ratio"}
TRAFFIC = {"pod_rx_mbps", "pod_tx_mbps", "pod_annotated_mbps", "app_sibling_mbps"}  # scaled to what NICs carry


@pytest.fixture
def plain(tiny_scenario):
    """Enough apps, nodes and time to tell strengths apart, and no peaks beside them."""
    return tiny_scenario(
        horizon_s=3600, nodes={"count": {"low": 40, "high": 40}}, apps={"count": 40}, loads={"spikes_per_hour": 0}
    )


@pytest.fixture
def varied(plain):
    return with_loads(plain, varied=1.0)


def strengths(load) -> np.ndarray:
    """Standard deviation of the logarithm of each column that moves at all."""
    return np.log(np.maximum(load[:, load.min(axis=0) > 0].astype(float), 1e-9)).std(axis=0)


def test_a_varied_episode_is_the_same_but_for_its_loads(plain, varied):
    changed = different(make_tape(plain, 5, 2), make_tape(varied, 5, 2))
    assert changed >= LOADS
    assert changed <= LOADS | TRAFFIC


def test_so_many_episodes_are_varied_and_the_others_are_what_they_were(plain):
    half = with_loads(plain, varied=0.5)
    chosen = [is_varied(half.loads, 5, index) for index in range(400)]
    assert 160 < sum(chosen) < 240
    for index in (chosen.index(False), chosen.index(True)):
        assert bool(different(make_tape(plain, 5, index), make_tape(half, 5, index))) == chosen[index]


def test_some_loads_hold_still_and_others_are_wild(plain, varied):
    for column in LOADS:
        alike, own = (strengths(getattr(make_tape(world, 5, 2), column)) for world in (plain, varied))
        assert np.percentile(own, 90) > 3 * np.percentile(own, 10), column
        assert np.percentile(alike, 90) < 3 * np.percentile(alike, 10), column


def test_varied_loads_keep_the_mean_that_the_scenario_gave_them(plain, varied):
    own, alike = ([make_tape(world, 5, index) for index in range(20)] for world in (varied, plain))

    def mean_of(tapes, column: str) -> float:
        return float(np.mean([getattr(tape, column).mean() for tape in tapes]))

    for column in LOADS:
        assert mean_of(own, column) == pytest.approx(mean_of(alike, column), rel=0.15), column
    assert make_tape(varied, 5, 2).background_tx_ratio.max() <= MOST_BACKGROUND


def test_another_future_moves_otherwise_in_the_same_ways(varied):
    now, later = (make_tape(varied, 5, 2, future).app_load for future in (0, 1))
    assert not np.array_equal(now, later)
    assert np.corrcoef(strengths(now), strengths(later))[0, 1] > 0.8
