"""Nodes as the API server writes them."""

from __future__ import annotations

import pytest

from agent.cluster import Taint
from agent.errors import InputError
from envs.live.nodes import addresses_of, node_from_api

GIB = 2**30


def api_node(**changes):
    node = {
        "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z1"}},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "3920m", "memory": "16Gi", "pods": "58", "nvidia.com/gpu": "4"},
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
        },
    }
    for path, value in changes.items():
        holder, key = path.split("__")
        node[holder][key] = value
    return node


def test_allocatable_zone_and_gpus_are_read():
    node, warnings = node_from_api(api_node(), {})
    assert (node.name, node.zone, node.pods_allocatable, node.gpus) == ("n1", "z1", 58, 4)
    assert (node.cpu_allocatable_millicores, node.memory_allocatable_bytes) == (3920, 16 * GIB)
    assert (node.ready, node.unschedulable, node.nic_mbps, warnings) == (True, False, None, [])


def test_taints_and_cordon_are_read():
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
    node, _ = node_from_api(api_node(spec__taints=[taint], spec__unschedulable=True), {})
    assert node.taints == (Taint("dedicated", "NoSchedule", "db"),)
    assert node.unschedulable


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_ready_is_what_the_ready_condition_says(status, ready):
    node, _ = node_from_api(api_node(status__conditions=[{"type": "Ready", "status": status}]), {})
    assert node.ready is ready


def test_node_without_conditions_is_judged_by_its_taints():
    assert node_from_api(api_node(status__conditions=None), {})[0].ready


def test_nic_speed_comes_from_the_label_then_from_the_table_then_is_unknown():
    table = {"m5.large": 10_000.0}
    typed = {"node.kubernetes.io/instance-type": "m5.large"}
    labelled = typed | {"pilotfish.io/nic-mbps": "2500"}
    assert node_from_api(api_node(metadata__labels=labelled), table)[0].nic_mbps == 2500.0
    assert node_from_api(api_node(metadata__labels=typed), table)[0].nic_mbps == 10_000.0
    assert node_from_api(api_node(metadata__labels={}), table)[0].nic_mbps is None


def test_price_power_and_latency_come_from_labels():
    labels = {
        "pilotfish.io/user-latency-ms": "12.5",
        "pilotfish.io/price-usd-per-hour": "0.096",
        "pilotfish.io/power-idle-watts": "80",
        "pilotfish.io/power-peak-watts": "210",
    }
    node, _ = node_from_api(api_node(metadata__labels=labels), {})
    assert (node.user_latency_ms, node.price_usd_per_hour) == (12.5, 0.096)
    assert (node.power_idle_watts, node.power_peak_watts) == (80.0, 210.0)


@pytest.mark.parametrize("labels", [{}, {"pilotfish.io/price-usd-per-hour": "cheap"}])
def test_without_labels_a_node_costs_what_its_size_usually_does(labels):
    node, _ = node_from_api(api_node(metadata__labels=labels, status__allocatable={"cpu": "8"}), {})
    assert node.price_usd_per_hour == pytest.approx(0.384)
    assert (node.power_idle_watts, node.power_peak_watts) == (60.0, 150.0)
    assert node.user_latency_ms is None  # nobody's size tells where the users are


@pytest.mark.parametrize("text", ["fast", "-1", "nan", "inf", "0", "1e300", ""])
def test_unreadable_label_is_a_warning_and_an_unknown_value(text):
    node, warnings = node_from_api(api_node(metadata__labels={"pilotfish.io/nic-mbps": text}), {})
    assert node.nic_mbps is None
    assert len(warnings) == 1
    assert "n1" in warnings[0]
    assert "pilotfish.io/nic-mbps" in warnings[0]


def test_addresses_are_kept_once_each():
    addresses = [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n1"}]
    assert addresses_of(api_node(status__addresses=[*addresses, addresses[0]])) == ("10.0.0.1", "n1")
    assert addresses_of({}) == ()


def test_node_that_offers_nothing_takes_nothing():
    node, _ = node_from_api({"metadata": {"name": "new"}}, {})
    assert (node.cpu_allocatable_millicores, node.memory_allocatable_bytes, node.pods_allocatable) == (0, 0, 0)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "lots"}}},
        {"metadata": {"name": "n", "labels": {"a": 1}}},
        {"metadata": {"name": "n"}, "spec": {"unschedulable": "yes"}},
        {"metadata": {"name": "n"}, "spec": {"taints": ["x"]}},
    ],
)
def test_node_that_breaks_the_api_is_refused(broken):
    with pytest.raises(InputError):
        node_from_api(broken, {})
