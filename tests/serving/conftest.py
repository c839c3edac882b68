"""A sidecar over a cluster that stands still: five nodes, a clock that tests move by hand."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from fastapi.testclient import TestClient

from agent.cluster import GPU_MILLI, GPUS_PER_NODE, ClusterState, Node, Taint
from agent.demand import ObservedDemand, Use
from agent.nodetable import NodeTable
from envs.live.snapshot import Snapshot
from serving.app import create_app
from serving.decide import new_decider
from serving.observability import Metrics
from serving.settings import ModelSettings, Settings

NAMES = ("idle", "busy", "middle", "tainted", "small")
BYTES_PER_MIB = 2**20


class ManualClock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class StillSource:
    """A ClusterSource whose snapshot tests put there."""

    def __init__(self, snapshot: Snapshot | None) -> None:
        self.current = snapshot
        self.running = False
        self.troubles: tuple[str, ...] = ()

    def start(self) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False

    def snapshot(self) -> Snapshot | None:
        return self.current

    def problems(self) -> tuple[str, ...]:
        return self.troubles


def a_node(index: int, cpu_millicores: float, memory_mib: float) -> Node:
    return Node(
        name=NAMES[index],
        cpu_allocatable_millicores=int(cpu_millicores),
        memory_allocatable_bytes=int(memory_mib) * BYTES_PER_MIB,
        zone=f"zone-{index % 2}",
        labels={"disk": "ssd" if index < 2 else "hdd"},
        taints=(Taint("dedicated", "NoSchedule", "db"),) if NAMES[index] == "tainted" else (),
    )


def a_snapshot(taken_at_s: float = 1000.0) -> Snapshot:
    count = len(NAMES)
    cpu = np.array([8000.0, 8000.0, 8000.0, 8000.0, 1000.0])
    memory = np.full(count, 16384.0)
    columns = {column.name: np.zeros(count) for column in fields(ClusterState)}
    columns |= {
        "cpu_allocatable_millicores": cpu,
        "memory_allocatable_mib": memory,
        "pods_allocatable": np.full(count, 110.0),
        "nic_mbps": np.full(count, 1000.0),
        "zone": np.arange(count) % 2,
        "zone_rtt_ms": np.array([[0.1, 1.0], [1.0, 0.1]]),
        "schedulable": np.ones(count, dtype=bool),
        "gpu_free_milli": np.zeros((count, GPUS_PER_NODE)),
        "cpu_requested_millicores": np.array([4000.0, 1000.0, 2000.0, 0.0, 0.0]),
        "cpu_used_millicores": np.array([400.0, 6000.0, 2000.0, 100.0, 100.0]),
        "rx_mbps": np.array([10.0, 900.0, 300.0, 10.0, 50.0]),
        "tx_mbps": np.array([10.0, 900.0, 300.0, 10.0, 50.0]),
        "user_latency_ms": np.array([10.0, 20.0, 30.0, 10.0, 10.0]),
    }
    columns["gpu_count"] = np.array([2.0, 0.0, 0.0, 0.0, 0.0])
    columns["gpu_free_milli"][0, :2] = GPU_MILLI
    columns |= {f"{group}_age_s": np.full(count, 5.0) for group in ("cpu", "memory", "network")}
    nodes = NodeTable(a_node(index, cpu[index], memory[index]) for index in range(count))
    observed = ObservedDemand(by_app={("shop", "web"): Use(80.0, 40.0, 0.5, 0.5)}, cluster=Use(20.0, 10.0, 0.6, 0.7))
    siblings = {("shop", "web"): np.array([0.0, 2.0, 1.0, 0.0, 0.0])}
    return Snapshot(nodes, ClusterState(**columns), taken_at_s, observed, siblings, queue_length=3)


def without_metrics(snapshot: Snapshot, *groups: str) -> Snapshot:
    gone = {f"{group}_age_s": np.full(len(NAMES), np.inf) for group in groups}
    return replace(snapshot, state=replace(snapshot.state, **gone))


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def settings(monkeypatch):
    return Settings(model=ModelSettings(folder="none"))


@pytest.fixture
def source():
    return StillSource(a_snapshot())


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def decider(settings, clock, metrics):
    return new_decider(settings, clock, metrics.on_ranking, metrics.on_skip)


@pytest.fixture
def client(settings, source, decider, metrics):
    with TestClient(create_app(settings, source, decider, metrics), raise_server_exceptions=False) as client:
        yield client
