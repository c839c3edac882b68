"""Sibling traffic against the full matrix of flows: every pod sends the same to every other pod of its app."""

from __future__ import annotations

import numpy as np
import pytest

from envs.dynamics.traffic import cross_zone_share, remote_share, sibling_traffic_mbps

NODE_OF = np.array([0, 0, 0, 1, 1, 2])  # six pods of one app on three nodes
ZONE_OF_NODE = np.array([0, 0, 1])
RATE_MBPS, LOAD = 30.0, 1.5


def flows_mbps() -> np.ndarray:
    """(sender, receiver): each pod spreads its rate evenly over the five others."""
    pods = len(NODE_OF)
    return np.where(np.eye(pods, dtype=bool), 0.0, RATE_MBPS * LOAD / (pods - 1))


def crossing(group: np.ndarray) -> np.ndarray:
    """The flows between pods of different groups."""
    return np.where(group[:, None] != group[None, :], flows_mbps(), 0.0)


def test_pod_sends_its_rate_times_load_to_siblings():
    assert sibling_traffic_mbps(RATE_MBPS, len(NODE_OF), LOAD) == pytest.approx(flows_mbps().sum(axis=1)[0])


def test_pod_alone_sends_nothing():
    assert sibling_traffic_mbps(RATE_MBPS, 1, LOAD) == 0.0
    assert remote_share(1, 1) == 0.0
    assert cross_zone_share(1, 1) == 0.0


def test_remote_share_is_what_leaves_the_node_in_the_matrix_of_flows():
    on_node = np.bincount(NODE_OF)
    shares = [remote_share(len(NODE_OF), on_node[node]) for node in NODE_OF]
    np.testing.assert_allclose(np.array(shares) * RATE_MBPS * LOAD, crossing(NODE_OF).sum(axis=1))


def test_cross_zone_share_is_what_leaves_the_zone_in_the_matrix_of_flows():
    zone_of = ZONE_OF_NODE[NODE_OF]
    in_zone = np.bincount(zone_of)
    shares = [cross_zone_share(len(NODE_OF), in_zone[zone]) for zone in zone_of]
    np.testing.assert_allclose(np.array(shares) * RATE_MBPS * LOAD, crossing(zone_of).sum(axis=1))


def test_siblings_together_on_one_node_stay_off_the_network():
    assert remote_share(6, 6) == 0.0
    assert cross_zone_share(6, 6) == 0.0


def test_what_a_node_sends_to_siblings_it_receives_from_them():
    sent = np.bincount(NODE_OF, weights=crossing(NODE_OF).sum(axis=1))
    received = np.bincount(NODE_OF, weights=crossing(NODE_OF).sum(axis=0))
    by_rule = [
        pods * RATE_MBPS * LOAD * remote_share(len(NODE_OF), pods) for pods in np.bincount(NODE_OF).astype(float)
    ]
    np.testing.assert_allclose(sent, received)
    np.testing.assert_allclose(by_rule, sent)
