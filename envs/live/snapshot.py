"""What is known of the cluster at one moment, published by a background source and read by requests.

A snapshot never changes after it is published, so a request reads it without locks, without waiting and without
I/O; the next one replaces it as a whole. Sources are the embedded simulation and, on a real cluster, the collectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from agent.assumed import Assumed
from agent.cluster import App, ClusterState, FloatArray, Pod
from agent.demand import ObservedDemand
from agent.nodetable import NodeTable
from agent.scorer import METRIC_GROUPS

_AGES = tuple(f"{group}_age_s" for group in METRIC_GROUPS)


@dataclass(frozen=True)
class Snapshot:
    nodes: NodeTable
    state: ClusterState
    taken_at_s: float  # of the clock that the decisions use
    observed: ObservedDemand = field(default_factory=ObservedDemand)
    pods_by_app: Mapping[App, FloatArray] = field(default_factory=dict)  # running pods per node, (nodes,)
    queue_length: int = 0  # pods without a node, as the watch shows them
    protected_uids: frozenset[str] = frozenset()  # pods that must not be preempted

    @property
    def index_of(self) -> Mapping[str, int]:
        return self.nodes.index_of

    def siblings_of(self, pod: Pod, assumed: Assumed | None = None) -> FloatArray:
        """Running pods of the same app on each node, and those that are assumed there."""
        app = pod.app_key
        known = self.pods_by_app.get(app) if app else None
        if app and assumed is not None and len(places := assumed.siblings(app, self.index_of, pod.uid)):
            coming = np.bincount(places, minlength=len(self.nodes)).astype(np.float64)
            return coming if known is None else known + coming
        return np.zeros(len(self.nodes)) if known is None else known

    def queue_with(self, pod: Pod, assumed: Assumed | None = None) -> int:
        """Pods that wait, this one included; those that are assumed somewhere wait no more."""
        return max(self.queue_length - (assumed.unseen(pod.uid) if assumed is not None else 0), 1)

    def state_at(self, now_s: float, assumed: Assumed | None = None, without_uid: str = "") -> ClusterState:
        """The state with its metrics as old as they are by now, and what is assumed counted, but not this pod."""
        state = self.state
        if assumed is not None:
            state = assumed.added_to(state, self.index_of, now_s, without_uid, self.taken_at_s)
        waited_s = max(now_s - self.taken_at_s, 0.0)
        ages = {name: getattr(state, name) + waited_s for name in _AGES}
        # metrics newer than the snapshot have ages below 0 in it
        return state.changed({name: np.maximum(age_s, 0.0, out=age_s) for name, age_s in ages.items()})


class ClusterSource(Protocol):
    """Keeps the snapshot fresh in the background."""

    def start(self) -> None: ...

    def stop(self) -> None:
        """Ask the background work to end; returns soon, also when it does not."""
        ...

    def snapshot(self) -> Snapshot | None:
        """The newest snapshot; None until there is a first one."""
        ...

    def problems(self) -> tuple[str, ...]:
        """Why the snapshot is missing, old or poor, for people; empty when all is well."""
        ...
