"""What the recording says of the cluster: nodes that are new, changed or gone, and the metrics from time to time."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from envs.live.snapshot import ClusterSource, Snapshot
from envs.workloads.recording_building import node_specs, sample_of
from envs.workloads.recording_records import Nodes, NodeSpec, Record


class ClusterRecords:
    def __init__(self, source: ClusterSource, sample_every_s: float) -> None:
        self._source = source
        self._sample_every_s = sample_every_s
        self._sample_at_s = -math.inf
        self._described: Snapshot | None = None
        self._known: dict[str, NodeSpec] = {}

    def due(self, now_s: float) -> Iterator[Record]:
        """Nodes as soon as they change, samples every so often; nothing while the cluster is unknown."""
        snapshot = self._source.snapshot()
        if snapshot is None:
            return
        if self._described is None or _other_nodes(self._described, snapshot):
            self._described = snapshot
            yield from self._changes(now_s, snapshot)
        if now_s >= self._sample_at_s:
            self._sample_at_s = now_s + self._sample_every_s
            yield sample_of(now_s, snapshot.state, snapshot.nodes.names)

    def _changes(self, now_s: float, snapshot: Snapshot) -> Iterator[Record]:
        zones = (node.zone for node in snapshot.nodes)
        specs = {spec.name: spec for spec in node_specs(snapshot.state, snapshot.nodes.names, zones)}
        changed = tuple(spec for name, spec in specs.items() if self._known.get(name) != spec)
        removed = tuple(name for name in self._known if name not in specs)
        self._known = specs
        if changed or removed:
            yield Nodes(at_s=now_s, nodes=changed, removed=removed)


def _other_nodes(before: Snapshot, now: Snapshot) -> bool:
    """Cheap enough to ask twice a second."""
    return before.nodes is not now.nodes or not np.array_equal(before.state.schedulable, now.state.schedulable)
