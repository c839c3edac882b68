"""What pods and nodes use, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from envs.dynamics import usage


def test_cpu_demand_is_the_used_share_of_the_request_and_moves_with_load():
    assert usage.cpu_demand_millicores(1000.0, 0.4, 1.0) == 400.0
    assert usage.cpu_demand_millicores(1000.0, 0.4, 2.5) == 1000.0
    assert usage.cpu_demand_millicores(1000.0, 0.4, 0.0) == 0.0


def test_memory_use_is_a_share_of_the_request_whatever_the_load():
    assert usage.memory_use_mib(2048.0, 0.5) == 1024.0
    assert usage.memory_use_mib(2048.0, 1.25) == 2560.0


def test_two_connections_for_each_megabit_of_a_number_or_an_array():
    assert usage.connections(30.0) == 60.0
    np.testing.assert_array_equal(usage.connections(np.array([0.0, 1.5])), [0.0, 3.0])


@pytest.mark.parametrize(("cpu_ratio", "watts"), [(0.0, 60.0), (0.5, 105.0), (1.0, 150.0), (1.7, 150.0)])
def test_power_is_linear_between_idle_and_peak_and_never_above_it(cpu_ratio, watts):
    assert usage.node_power_watts(60.0, 150.0, cpu_ratio, pods=1.0) == watts


def test_node_without_pods_uses_no_power_and_costs_nothing():
    assert usage.node_power_watts(60.0, 150.0, 0.9, pods=0.0) == 0.0
    assert usage.active_price_usd_per_hour(0.4, pods=0.0) == 0.0


def test_node_with_a_pod_costs_its_full_price():
    assert usage.active_price_usd_per_hour(0.4, pods=1.0) == 0.4
    assert usage.active_price_usd_per_hour(0.4, pods=50.0) == 0.4
