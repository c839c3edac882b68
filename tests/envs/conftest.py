"""Small worlds for the tests of the simulators: one written by hand, column by column, and one from a scenario."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from envs.workloads.scenario import Scenario, parse_scenario
from envs.workloads.tape import AXES, Tape, make

Columns = dict[str, Any]

HAND_MADE: Columns = {
    "node_cpu_millicores": 4000.0,
    "node_memory_mib": 8000.0,
    "node_pods": 110,
    "node_gpus": 0,
    "node_nic_mbps": 1000.0,
    "node_nic_known": True,
    "node_zone": 0,
    "node_user_latency_ms": 10.0,
    "node_price_usd_per_hour": 0.36,
    "node_power_idle_watts": 50.0,
    "node_power_peak_watts": 150.0,
    "node_background_memory_mib": 0.0,
    "node_maintenance_start_s": np.inf,
    "node_maintenance_end_s": np.inf,
    "zone_rtt_ms": 1.0,
    "app_sibling_mbps": 0.0,
    "app_sibling_declared": False,
    "pod_initial": False,
    "pod_duration_s": 1000.0,
    "pod_app": 0,
    "pod_labelled": True,
    "pod_cpu_request_millicores": 500.0,
    "pod_memory_request_mib": 1000.0,
    "pod_gpus": 0,
    "pod_gpu_milli": 1000,
    "pod_cpu_use_ratio": 0.5,
    "pod_memory_use_ratio": 0.5,
    "pod_rx_mbps": 10.0,
    "pod_tx_mbps": 20.0,
    "pod_annotated_mbps": np.nan,
    "pod_latency_soft_ms": np.nan,
    "pod_latency_hard_ms": np.nan,
    "pod_start": 0.0,
    "pod_override": -1.0,
    "pod_visible_after": 0,
    "app_load": 1.0,
    "background_cpu_ratio": 0.0,
    "background_rx_ratio": 0.0,
    "background_tx_ratio": 0.0,
    "load_step_s": 15.0,
    "scrape_missing": False,
    "scrape_interval_s": 10.0,
    "scrape_delay_s": 0.0,
    "rate_window_s": 30.0,
    "pod_metrics": True,
    "horizon_s": 100.0,
    "tick_s": 1.0,
    "pending_timeout_s": 1000.0,
    "candidate_minimum": 100,
}


def build_tape(nodes: int = 2, pods: int = 2, apps: int = 1, zones: int = 1, **columns: Any) -> Tape:
    """Equal idle nodes and equal pods that arrive one a second; the columns given replace these."""
    sizes = {"nodes": nodes, "pods": pods, "apps": apps, "zones": zones, "steps": 8, "scrapes": 32}
    values = HAND_MADE | {"pod_arrival_s": np.arange(1.0, pods + 1.0)} | columns
    shapes = {name: tuple(sizes[axis] for axis in axes) for name, (axes, _) in AXES.items()}
    return make(**{name: np.broadcast_to(value, shapes.get(name, ())) for name, value in values.items()})


TINY: Columns = {
    "name": "tiny",
    "description": "a few small nodes that are soon full",
    "nodes": {
        "count": {"low": 4, "high": 4},
        "zones": 2,
        "kinds": [
            {
                "cpu_cores": 4,
                "memory_gib": 8,
                "nic_gbps": 0.25,
                "price_usd_per_hour": 0.2,
                "power_idle_watts": 40,
                "power_peak_watts": 100,
            }
        ],
    },
    "apps": {
        "count": 5,
        "cpu_request_millicores": {"median": 450, "sigma": 0.5},
        "memory_mib_per_core": {"median": 1800, "sigma": 0.3},
        "external_mbps": {"median": 20, "sigma": 1.0},
    },
    "arrivals": {
        "load": {"low": 0.6, "high": 0.8},
        "duration_s": {"median": 60, "sigma": 0.6},
        "bursts": 0.4,
        "burst_size": 4,
    },
    "scraping": {"interval_s": [5], "window_s": [15], "delay_s": [0, 5]},
    "loads": {"step_s": 10},
    "horizon_s": 150,
    "tick_s": 1,
}


def build_scenario(**parts: Any) -> Scenario:
    """The tiny scenario; the parts given are merged into it."""
    return parse_scenario(merged(TINY, parts), "test")


def merged(base: Any, changes: Any) -> Any:
    if isinstance(base, dict) and isinstance(changes, dict):
        return base | {name: merged(base.get(name), value) for name, value in changes.items()}
    if isinstance(base, list) and isinstance(base[0], dict):  # kinds of nodes: each is the first one, changed
        return [merged(base[0], each) for each in changes]
    return changes


def changed(tape: Tape, **columns: Any) -> Tape:
    """The same tape with other values in some columns."""
    return make(**{column.name: getattr(tape, column.name) for column in fields(Tape)} | columns)


@pytest.fixture(scope="session")
def hand_tape():
    return build_tape


@pytest.fixture(scope="session")
def tiny_scenario():
    return build_scenario


@pytest.fixture(scope="session")
def with_columns():
    return changed
