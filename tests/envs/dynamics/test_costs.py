"""The table of cost terms: its order is the order of every array of terms."""

from __future__ import annotations

import numpy as np

from envs.dynamics import costs


def test_every_term_has_its_own_place_and_a_unit():
    by_name = {
        "network_loss": costs.NETWORK_LOSS,
        "cross_zone": costs.CROSS_ZONE,
        "latency_violation": costs.LATENCY,
        "cpu_throttling": costs.THROTTLING,
        "memory_kills": costs.KILLS,
        "imbalance": costs.IMBALANCE,
        "fragmentation": costs.FRAGMENTATION,
        "pending_time": costs.PENDING,
        "failures": costs.FAILURES,
        "energy": costs.ENERGY,
        "money": costs.MONEY,
    }
    assert by_name == costs.TERM
    assert list(costs.TERM) == list(costs.TERMS)
    assert all(costs.TERMS.values())


def test_units_are_what_their_names_say():
    assert costs.MBIT_PER_GB == 1e9 * 8 / 1e6
    assert costs.JOULES_PER_KWH == 1000 * 60 * 60
    assert costs.SECONDS_PER_HOUR == 60 * 60


def test_no_costs_is_a_fresh_array_each_time():
    first = costs.no_costs()
    first += 1.0
    np.testing.assert_array_equal(costs.no_costs(), np.zeros(len(costs.TERMS)))
