from __future__ import annotations

import numpy as np
import pytest

from agent.heuristics.expected_utilisation import ExpectedUtilisation

NAN = np.nan
SIZE = {
    "nodes": 1,
    "cpu_allocatable_millicores": [1000],
    "memory_allocatable_mib": [1000],
    "nic_mbps": [1000],
}
# CPU 200 + 100 + 100, memory 100 + 0 + 100, receive 300 + 200 + 100, transmit 0
USE = {
    "cpu_used_millicores": [200],
    "pending_cpu_millicores": [100],
    "memory_used_mib": [100],
    "rx_mbps": [300],
    "pending_rx_mbps": [200],
}
POD = {"expected_cpu_millicores": 100, "expected_memory_mib": 100, "expected_rx_mbps": 100}


def test_score_is_what_stays_free_of_the_worst_and_of_the_mean(score) -> None:
    # u = 0.4, 0.2, 0.6, 0: worst 0.6, mean 0.3
    assert score(ExpectedUtilisation(), SIZE | USE, POD) == pytest.approx([49])


RESOURCES = {"cpu": "cpu_used_millicores", "memory": "memory_used_mib", "rx": "rx_mbps", "tx": "tx_mbps"}


@pytest.mark.parametrize("resource", RESOURCES)
def test_every_resource_counts_alike_measured_pending_or_expected(score, resource) -> None:
    unit = RESOURCES[resource].rsplit("_", 1)[1]
    alone = pytest.approx([100 - 70 * 0.4 - 30 * 0.4 / 4])
    assert score(ExpectedUtilisation(), SIZE | {RESOURCES[resource]: [400]}) == alone
    assert score(ExpectedUtilisation(), SIZE | {f"pending_{resource}_{unit}": [400]}) == alone
    assert score(ExpectedUtilisation(), SIZE, {f"expected_{resource}_{unit}": 400}) == alone


@pytest.mark.parametrize(
    ("capacity", "resource"), [("cpu_allocatable_millicores", "cpu"), ("memory_allocatable_mib", "memory")]
)
def test_every_resource_has_its_own_capacity(score, capacity, resource) -> None:
    state = SIZE | {capacity: [500], RESOURCES[resource]: [400]}
    assert score(ExpectedUtilisation(), state) == pytest.approx([100 - 70 * 0.8 - 30 * 0.8 / 4])


def test_of_two_overloaded_nodes_the_less_overloaded_wins(score) -> None:
    values = score(ExpectedUtilisation(), {"rx_mbps": [1500, 3000, 900]})
    assert values[2] > values[0] > values[1]
    assert values[1] == pytest.approx(100 - 210 - 22.5)


def test_an_unknown_nic_takes_the_median_of_the_candidates(score) -> None:
    state = {"nodes": 4, "rx_mbps": [100, 300, 700, 5], "nic_mbps": [1000, 1000, NAN, 1000]}
    values = score(ExpectedUtilisation(), state, candidates=[True, True, True, False])
    assert values[:3] == pytest.approx([92.25, 76.75, 84.5])  # 0.1, 0.3, 0.2 received of 1


@pytest.mark.parametrize("column", ["cpu_used_millicores", "memory_used_mib", "rx_mbps", "tx_mbps"])
def test_a_node_without_a_metric_has_no_score(score, column) -> None:
    assert np.isnan(score(ExpectedUtilisation(), {column: [NAN, 0, 0]})).tolist() == [True, False, False]


def test_a_node_without_traffic_and_nic_speed_has_no_score(score) -> None:
    values = score(ExpectedUtilisation(), {"rx_mbps": [NAN, 0, 0], "nic_mbps": [NAN, 1000, 1000]})
    assert np.isnan(values).tolist() == [True, False, False]


def test_an_unknown_demand_counts_nothing(score) -> None:
    assert score(ExpectedUtilisation(), demand={"expected_tx_mbps": NAN}) == pytest.approx([100, 100, 100])


def test_a_node_that_has_none_of_a_resource_is_full_not_unscored(score) -> None:
    values = score(ExpectedUtilisation(), {"cpu_allocatable_millicores": [0, 4000, 4000]})
    assert values == pytest.approx([22.5, 100, 100])


def test_soft_latency_limit_costs_points_and_unknown_half_of_them(score) -> None:
    state = {"user_latency_ms": [35, 36, NAN]}
    assert score(ExpectedUtilisation(), state, {"latency_soft_ms": 35}) == pytest.approx([100, 80, 90])
    assert score(ExpectedUtilisation(), state) == pytest.approx([100, 100, 100])
    strict = ExpectedUtilisation(latency_penalty=50)
    assert score(strict, state, {"latency_soft_ms": 35}) == pytest.approx([100, 50, 75])


def test_a_burst_spreads_although_no_metric_changes(make_state, make_demand) -> None:
    """What the documented NetworkTraffic does not do: the design's reason for this scorer."""
    pending_mbps, placed = np.zeros(3), []
    for _ in range(9):
        state = make_state(rx_mbps=[0, 1, 2], pending_rx_mbps=pending_mbps)
        values = ExpectedUtilisation().score(state, make_demand(expected_rx_mbps=100.0), np.ones(3, dtype=np.bool_))
        placed.append(int(values.argmax()))
        pending_mbps[placed[-1]] += 100.0
    assert np.bincount(placed).tolist() == [3, 3, 3]
