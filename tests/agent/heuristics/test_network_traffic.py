from __future__ import annotations

import numpy as np
import pytest

from agent.heuristics.network_traffic import NetworkTraffic, NetworkTrafficCorrected

NAN = np.nan


def test_documented_score_is_relative_to_the_busiest_node(score) -> None:
    assert score(NetworkTraffic(), {"rx_mbps": [100, 50, 0]}) == pytest.approx([0, 50, 100])


def test_documented_score_sees_receive_traffic_alone(score) -> None:
    state = {"rx_mbps": [100, 50, 0], "tx_mbps": [0, 0, 900], "pending_rx_mbps": [0, 0, 900], "nic_mbps": [1, 1, 1]}
    assert score(NetworkTraffic(), state, {"expected_rx_mbps": 500}) == pytest.approx([0, 50, 100])


def test_no_traffic_at_all_gives_equal_scores(score) -> None:
    assert score(NetworkTraffic()) == pytest.approx([100, 100, 100])


def test_the_busiest_node_is_looked_for_among_candidates(score) -> None:
    values = score(NetworkTraffic(), {"rx_mbps": [1000, 50, 25]}, candidates=[False, True, True])
    assert values[1:] == pytest.approx([0, 50])


def test_a_node_without_a_series_has_no_score_and_leaves_the_others_theirs(score) -> None:
    assert score(NetworkTraffic(), {"rx_mbps": [100, NAN, 0]}) == pytest.approx([0, NAN, 100], nan_ok=True)


def test_corrected_score_is_the_free_share_of_the_busier_direction(score) -> None:
    state = {"rx_mbps": [100, 500, NAN], "tx_mbps": [800, 0, 0], "nic_mbps": [1000, 10_000, 1000]}
    assert score(NetworkTrafficCorrected(), state) == pytest.approx([20, 95, NAN], nan_ok=True)


@pytest.mark.parametrize("unknown", [NAN, 0.0])
def test_corrected_score_of_an_unknown_nic_is_the_median(score, unknown) -> None:
    state = {"rx_mbps": [800, 50, 999], "nic_mbps": [1000, 1000, unknown]}
    assert score(NetworkTrafficCorrected(), state) == pytest.approx([20, 95, 57.5])


def test_corrected_score_of_no_known_nic_is_equal(score) -> None:
    state = {"rx_mbps": [800, 50, 999], "nic_mbps": [NAN, NAN, NAN]}
    assert score(NetworkTrafficCorrected(), state) == pytest.approx([100, 100, 100])
