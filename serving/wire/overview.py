"""The cluster in columns, for the console: thousands of nodes cost a few numpy arrays instead of thousands of objects.

``GET /v1/state`` tells the same node by node, for people and scripts that ask now and then; this is sent every two
seconds to every open console, and must not delay an answer to a scheduler. Unknown is null, as everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agent.cluster import ClusterState
from agent.scorer import METRIC_GROUPS
from envs.live.snapshot import Snapshot
from serving.decide import Decider
from serving.settings import Settings

FIGURES = (
    "cpu_allocatable_millicores",
    "cpu_requested_millicores",
    "cpu_used_millicores",
    "memory_allocatable_mib",
    "memory_requested_mib",
    "memory_used_mib",
    "nic_mbps",
    "rx_mbps",
    "tx_mbps",
    "pods_running",
    *(f"{group}_age_s" for group in METRIC_GROUPS),
)
DECIMALS = 1  # of millicores, MiB, Mbit/s and seconds: nobody sees more, and it halves what is sent


def overview(snapshot: Snapshot | None, decider: Decider, settings: Settings) -> dict[str, Any]:
    now_s = decider.clock()
    return {
        "age_s": None if snapshot is None else now_s - snapshot.taken_at_s,
        "queue_length": 0 if snapshot is None else snapshot.queue_length,
        "assumed": len(decider.assumed),
        "mode": settings.rollout.mode,
        "stale_after_s": settings.ladder.stale_after_s,
        "ladder": [{"step": step.scorer.name, "breaker": step.breaker.state} for step in decider.ladder.steps],
        "models": {"loaded": decider.policy.labels, "problems": decider.policy.problems},
        "nodes": {} if snapshot is None else _columns(snapshot, snapshot.state_at(now_s)),
    }


def _columns(snapshot: Snapshot, state: ClusterState) -> dict[str, Any]:
    columns: dict[str, Any] = {"name": snapshot.nodes.names, "zone": [node.zone for node in snapshot.nodes]}
    columns["schedulable"] = np.ascontiguousarray(state.schedulable)
    return columns | {name: np.round(getattr(state, name), DECIMALS) for name in FIGURES}
