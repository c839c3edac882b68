from __future__ import annotations

import numpy as np
import pytest

from agent.heuristics.network_overhead import NetworkOverhead, accumulated_cost

# Nodes 0 and 1 in zone 0, node 2 in zone 1, 4 ms away: cost 5. Siblings: two on node 0, one on node 2.
STATE = {"zone": [0, 0, 1], "zone_rtt_ms": [[0.1, 4], [4, 0.1]]}
SIBLINGS = {"siblings": 3, "siblings_on_node": [2, 0, 1], "siblings_in_zone": [2, 2, 1]}


def test_cost_adds_up_over_the_siblings(make_state, make_demand) -> None:
    # 0 + 0 + 5; 1 + 1 + 5; 5 + 5 + 0
    assert accumulated_cost(make_state(**STATE), make_demand(**SIBLINGS)) == pytest.approx([5, 7, 10])


def test_nearest_node_scores_100_and_farthest_0(score) -> None:
    assert score(NetworkOverhead(), STATE, SIBLINGS) == pytest.approx([100, 60, 0])


def test_range_is_that_of_the_candidates(score) -> None:
    values = score(NetworkOverhead(), STATE, SIBLINGS, candidates=[False, True, True])
    assert values[1:] == pytest.approx([100, 0])


def test_a_pod_without_siblings_is_indifferent(score) -> None:
    assert score(NetworkOverhead(), STATE) == pytest.approx([100, 100, 100])


@pytest.mark.parametrize("rtt_ms", [np.nan, 250.0])
def test_unknown_and_very_long_distances_cost_100(make_state, make_demand, rtt_ms) -> None:
    state = make_state(**STATE | {"zone_rtt_ms": [[0, rtt_ms], [rtt_ms, 0]]})
    assert accumulated_cost(state, make_demand(**SIBLINGS)) == pytest.approx([100, 102, 200])


def test_another_zone_is_dearer_than_the_own_one_even_without_delay(make_state, make_demand) -> None:
    state = make_state(**STATE | {"zone_rtt_ms": [[0, 0.2], [0.2, 0]]})
    near, _, far = accumulated_cost(state, make_demand(siblings_in_zone=[2, 2, 0], siblings=2))
    assert near == pytest.approx(2)
    assert far == pytest.approx(2.4)


def test_direction_between_zones_counts(make_state, make_demand) -> None:
    state = make_state(**STATE | {"zone_rtt_ms": [[0, 4], [9, 0]]})
    assert accumulated_cost(state, make_demand(**SIBLINGS)) == pytest.approx([5, 7, 20])
