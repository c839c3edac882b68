"""Which nodes kube-scheduler would offer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from envs.dynamics.sampling import candidates_wanted, first_node, latency_allows


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        (1, 1),
        (100, 100),  # up to the minimum all are looked at
        (101, 100),
        (500, 230),  # 50 - 500/125 = 46 %
        (1000, 420),
        (5000, 500),  # 10 %
        (6000, 300),  # never below 5 %
        (20000, 1000),
    ],
)
def test_share_of_the_nodes_falls_with_their_number_as_in_kube_scheduler(nodes, wanted):
    assert candidates_wanted(nodes, minimum=100) == wanted


def test_small_minimum_gives_subsets_of_small_clusters():
    assert candidates_wanted(10, minimum=3) == 5
    assert candidates_wanted(4, minimum=3) == 3


def test_search_starts_at_every_node_equally_often_and_never_beyond_the_last():
    starts = [first_node(start, 8) for start in np.arange(0.0, 1.0, 1 / 800)]
    np.testing.assert_array_equal(np.bincount(starts), [100] * 8)
    assert first_node(1.0, 8) == 7
    assert first_node(0.999999, 1) == 0


def test_hard_latency_limit_rules_a_node_out_and_no_limit_does_not():
    assert latency_allows(50.0, 50.0)
    assert not latency_allows(50.1, 50.0)
    assert latency_allows(1e9, math.nan)
