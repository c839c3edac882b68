"""What the watch shows of pods corrects what is assumed of them."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest

from agent.assumed import Assumed
from agent.cluster import ClusterState, Pod
from agent.demand import ObservedDemand, Use
from envs.live.placements import AssumedPlacements

POD = Pod("u1", namespace="web", app="shop", cpu_request_millicores=1000, memory_request_bytes=400 * 2**20)
SNAPSHOT = SimpleNamespace(observed=ObservedDemand({("web", "shop"): Use(10.0, 20.0, 0.5, 0.25)}))


@pytest.fixture
def clock() -> SimpleNamespace:
    return SimpleNamespace(now_s=100.0)


@pytest.fixture
def assumed() -> Assumed:
    return Assumed(window_s=60.0)


@pytest.fixture
def listener(assumed, clock) -> AssumedPlacements:
    return AssumedPlacements(assumed, lambda: clock.now_s)


@pytest.fixture
def pending(assumed, clock):
    """Receive and memory columns of nodes a, b and c, whose metrics are of this moment."""

    def columns() -> tuple[list[float], list[float]]:
        known = {column.name: np.zeros(3) for column in fields(ClusterState)}
        known |= {"rx_mbps": np.full(3, 50.0), "memory_used_mib": np.full(3, 500.0)}
        corrected = assumed.added_to(ClusterState(**known), {"a": 0, "b": 1, "c": 2}, clock.now_s)
        return corrected.pending_rx_mbps.tolist(), corrected.pending_memory_mib.tolist()

    return columns


def test_a_pod_that_left_is_taken_away_as_far_as_the_metrics_show_it(listener, clock, assumed, pending):
    listener.on_bound(POD, "b", SNAPSHOT)
    clock.now_s = 130.0  # the window holds half of it
    assert pending()[0] == [0.0, 5.0, 0.0]
    listener.on_gone(POD, "b", SNAPSHOT)
    assert pending() == ([0.0, -5.0, 0.0], [0.0, -100.0, 0.0])
    assert len(assumed) == 0


def test_a_pod_that_never_had_a_node_leaves_nothing(listener, pending):
    listener.on_gone(POD, "", SNAPSHOT)
    assert pending() == ([0.0] * 3, [0.0] * 3)
