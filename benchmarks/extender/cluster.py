"""A cluster of any size, made of numbers: a ``ClusterSource`` that stands still, so that only the answers are timed."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from agent.breaker import Clock
from agent.cluster import GPUS_PER_NODE, ClusterState, Node
from agent.demand import ObservedDemand, Use
from agent.nodetable import NodeTable
from envs.live.cluster import PUBLISH_EVERY_S
from envs.live.snapshot import Snapshot

ZONES = 3
APPS = 40
CORES = np.array([8, 16, 32])
BYTES_PER_MIB = 2**20


class StandingCluster:
    """Nodes like those of the ``microservices`` scenario, whose metrics are always a few seconds old.

    It publishes as often as a live cluster on which pods come and go.
    """

    def __init__(self, nodes: int, clock: Clock) -> None:
        self._clock = clock
        self._newest: Snapshot | None = None
        self._state = standing_state(nodes, np.random.default_rng(0))
        self._nodes = NodeTable(_node(index, self._state) for index in range(nodes))
        rng = np.random.default_rng(1)
        self._pods_by_app = {
            ("default", f"app-{app}"): rng.integers(0, 2, nodes).astype(np.float64) for app in range(APPS)
        }

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def problems(self) -> tuple[str, ...]:
        return ()

    def snapshot(self) -> Snapshot:
        now_s = self._clock()
        if self._newest is None or now_s > self._newest.taken_at_s + PUBLISH_EVERY_S:
            self._newest = Snapshot(
                self._nodes,
                self._state,
                now_s,
                ObservedDemand(cluster=Use(20.0, 10.0, 0.6, 0.7)),
                self._pods_by_app,
                queue_length=3,
            )
        return self._newest


def name(index: int) -> str:
    """As long as names in the cloud are."""
    return f"ip-10-{index // 65536}-{index // 256 % 256}-{index % 256}.ec2.internal"


def standing_state(nodes: int, rng: np.random.Generator) -> ClusterState:
    cores = rng.choice(CORES, nodes).astype(float)
    columns: dict[str, Any] = {column.name: np.zeros(nodes) for column in fields(ClusterState)}
    columns |= {
        "cpu_allocatable_millicores": cores * 1000.0,
        "memory_allocatable_mib": cores * 4096.0,
        "pods_allocatable": np.full(nodes, 110.0),
        "nic_mbps": np.where(cores > 16, 10_000.0, 1_000.0),
        "zone": rng.integers(0, ZONES, nodes),
        "user_latency_ms": rng.uniform(5.0, 40.0, nodes),
        "price_usd_per_hour": cores * 0.05,
        "power_idle_watts": cores * 4.0,
        "power_peak_watts": cores * 12.0,
        "schedulable": np.ones(nodes, dtype=bool),
        "cpu_requested_millicores": cores * 1000.0 * rng.uniform(0.2, 0.7, nodes),
        "memory_requested_mib": cores * 4096.0 * rng.uniform(0.2, 0.7, nodes),
        "pods_running": rng.integers(3, 30, nodes).astype(float),
        "gpu_free_milli": np.zeros((nodes, GPUS_PER_NODE)),
        "cpu_used_millicores": cores * 1000.0 * rng.uniform(0.1, 0.6, nodes),
        "cpu_std_millicores": cores * 20.0,
        "memory_used_mib": cores * 4096.0 * rng.uniform(0.2, 0.6, nodes),
        "rx_mbps": rng.uniform(20.0, 300.0, nodes),
        "tx_mbps": rng.uniform(20.0, 300.0, nodes),
        "connections": rng.integers(10, 300, nodes).astype(float),
        "zone_rtt_ms": np.where(np.eye(ZONES, dtype=bool), 0.2, 1.0),
    }
    ages = {f"{group}_age_s": rng.uniform(1.0, 15.0, nodes) for group in ("cpu", "memory", "network")}
    return ClusterState(**(columns | ages))


def _node(index: int, state: ClusterState) -> Node:
    zone = f"zone-{int(state.zone[index])}"
    return Node(
        name=name(index),
        cpu_allocatable_millicores=int(state.cpu_allocatable_millicores[index]),
        memory_allocatable_bytes=int(state.memory_allocatable_mib[index]) * BYTES_PER_MIB,
        zone=zone,
        labels={"topology.kubernetes.io/zone": zone},
        nic_mbps=float(state.nic_mbps[index]),
    )
