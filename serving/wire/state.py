"""What the sidecar knows of the cluster, for people: every number with its age.

Unknown is NaN or infinity in the arrays; orjson writes both as null.
"""

from __future__ import annotations

from typing import Any

from agent.cluster import ClusterState, FloatArray
from agent.ladder import Ladder
from agent.scorer import METRIC_GROUPS
from envs.live.snapshot import Snapshot
from serving.policy import Policy


def from_snapshot(snapshot: Snapshot, ladder: Ladder, policy: Policy, assumed: int, now_s: float) -> dict[str, Any]:
    state = snapshot.state_at(now_s)
    return {
        "age_s": now_s - snapshot.taken_at_s,
        "queue_length": snapshot.queue_length,
        "assumed": assumed,
        "ladder": [{"step": step.scorer.name, "breaker": step.breaker.state} for step in ladder.steps],
        "models": {"loaded": list(policy.labels), "problems": list(policy.problems)},
        "nodes": [
            {"name": node.name, "zone": node.zone, **_figures(state, index)}
            for index, node in enumerate(snapshot.nodes)
        ],
    }


def _figures(state: ClusterState, node: int) -> dict[str, Any]:
    columns: dict[str, FloatArray] = {
        "cpu_allocatable_millicores": state.cpu_allocatable_millicores,
        "cpu_requested_millicores": state.cpu_requested_millicores,
        "cpu_used_millicores": state.cpu_used_millicores,
        "memory_allocatable_mib": state.memory_allocatable_mib,
        "memory_requested_mib": state.memory_requested_mib,
        "memory_used_mib": state.memory_used_mib,
        "nic_mbps": state.nic_mbps,
        "rx_mbps": state.rx_mbps,
        "tx_mbps": state.tx_mbps,
        "pods": state.pods_running,
    }
    figures: dict[str, Any] = {"schedulable": bool(state.schedulable[node])}
    figures |= {name: float(values[node]) for name, values in columns.items()}
    figures["ages_s"] = {group: float(getattr(state, f"{group}_age_s")[node]) for group in METRIC_GROUPS}
    return figures
