"""Small clusters for the tests of the decision layer, written as plain numbers."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from agent.cluster import GPUS_PER_NODE, ClusterState, Demand

PER_NODE = ("siblings_on_node", "siblings_in_zone", "sibling_rtt_ms")
UNLIMITED = ("latency_soft_ms", "latency_hard_ms", "sibling_mbps")


def build_state(nodes: int = 3, **columns) -> ClusterState:
    """Idle nodes of 4 cores, 8000 MiB and 1000 Mbps with fresh metrics; the columns given replace these."""
    values = {column.name: np.zeros(nodes) for column in fields(ClusterState)}
    values |= {
        "cpu_allocatable_millicores": np.full(nodes, 4000.0),
        "memory_allocatable_mib": np.full(nodes, 8000.0),
        "pods_allocatable": np.full(nodes, 110.0),
        "nic_mbps": np.full(nodes, 1000.0),
        "zone": np.zeros(nodes, dtype=np.int64),
        "schedulable": np.ones(nodes, dtype=np.bool_),
        "gpu_free_milli": np.zeros((nodes, GPUS_PER_NODE)),
        "zone_rtt_ms": np.zeros((1, 1)),
    }
    given = {name: np.asarray(value, dtype=values[name].dtype) for name, value in columns.items()}
    return ClusterState(**values | given)


def build_demand(nodes: int = 3, **columns) -> Demand:
    """A pod that asks for nothing, has no limits and no siblings; the columns given replace these."""
    values = {column.name: np.zeros(nodes if column.name in PER_NODE else ()) for column in fields(Demand)}
    values |= {name: np.asarray(np.nan) for name in UNLIMITED}
    values |= {"demand_source": np.asarray(4), "queue_length": np.asarray(1.0)}
    given = {name: np.asarray(value, dtype=values[name].dtype) for name, value in columns.items()}
    return Demand(**values | given)


@pytest.fixture
def make_state():
    return build_state


@pytest.fixture
def make_demand():
    return build_demand
