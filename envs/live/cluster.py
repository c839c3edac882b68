"""A real cluster as a ``ClusterSource``: the watch and the metrics, joined and published a few times a second.

Changes are collected for a moment and published together, so a storm of events costs no more than a breeze. Requests
read the newest snapshot and never wait. Until the first lists are whole there is none; while a watch is broken the
snapshot keeps the time at which it broke, so its age tells how long we have been blind.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from agent.breaker import Clock
from agent.cluster import Pod
from agent.demand import ObservedDemand
from agent.nodetable import NodeTable
from envs.live.arrivals import Arrivals
from envs.live.assembling import (
    AppCounts,
    Columns,
    ZoneRtt,
    cluster_state,
    metric_columns,
    node_columns,
    request_columns,
)
from envs.live.kubernetes.watching import Follower
from envs.live.ledger import Bound, Ledger, Notice
from envs.live.metrics import LiveMetrics, MetricsSource
from envs.live.observing import observed_demand
from envs.live.snapshot import Snapshot

logger = logging.getLogger(__name__)

PUBLISH_EVERY_S = 0.1  # at most
REFRESH_EVERY_S = 1.0  # at least: new metrics, and the time up to which the watch is known to hold
STOP_WITHIN_S = 1.0


class PodListener(Protocol):
    """Is told what the watch showed, after the snapshot that counts it was published; must not wait."""

    def on_bound(self, pod: Pod, node: str, snapshot: Snapshot) -> None: ...

    def on_gone(self, pod: Pod, node: str, snapshot: Snapshot) -> None:
        """``node`` is empty if it had none."""
        ...


class LiveCluster:
    def __init__(
        self,
        ledger: Ledger,
        followers: Sequence[Follower],
        metrics: MetricsSource,
        rtt: ZoneRtt,
        clock: Clock,
        wall: Clock = time.time,
        listeners: Sequence[PodListener] = (),
    ) -> None:
        self._ledger = ledger
        self._followers = followers
        self._metrics = metrics
        self._assembly = _Assembly(rtt, wall)
        self._clock = clock
        self._listeners = listeners
        self._newest: Snapshot | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cluster", daemon=True)

    def start(self) -> None:
        self._metrics.start()
        for follower in self._followers:
            follower.start()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._ledger.changed.set()
        for follower in self._followers:
            follower.stop()
        self._metrics.stop()
        self._thread.join(STOP_WITHIN_S)

    def snapshot(self) -> Snapshot | None:
        return self._newest

    def problems(self) -> tuple[str, ...]:
        """Why the snapshot is missing, old or poor."""
        watching = tuple(follower.problem for follower in self._followers if follower.problem)
        return watching + self._metrics.newest().problems

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._ledger.changed.wait(PUBLISH_EVERY_S if self._newest is None else REFRESH_EVERY_S)
            self._ledger.changed.clear()
            if all(follower.synced.is_set() for follower in self._followers):
                try:
                    self._publish()
                except Exception:  # the last snapshot stays, and its age shows that something is wrong
                    logger.exception("the state of the cluster was not published")
            self._stopping.wait(PUBLISH_EVERY_S)

    def _publish(self) -> None:
        now_s = self._clock()
        lost_at_s = [follower.lost_at_s for follower in self._followers]
        held_until_s = min((lost for lost in lost_at_s if lost is not None), default=now_s)
        snapshot, notices = self._assembly.snapshot(self._ledger, self._metrics.newest(), now_s, held_until_s)
        self._newest = snapshot
        for notice in notices:
            self._tell(notice, snapshot)

    def _tell(self, notice: Notice, snapshot: Snapshot) -> None:
        for listener in self._listeners:
            try:
                if isinstance(notice, Bound):
                    listener.on_bound(notice.pod, notice.node, snapshot)
                else:
                    listener.on_gone(notice.pod, notice.node, snapshot)
            except Exception:  # a listener's defect is not the cluster's
                logger.exception("%s failed", type(listener).__name__)


class _Assembly:
    """Snapshots one after the other; what has not changed since the last one is taken from it."""

    def __init__(self, rtt: ZoneRtt, wall: Clock) -> None:
        self._rtt = rtt
        self._wall = wall
        self._nodes_version = -1
        self._nodes = NodeTable(())
        self._node_columns: Columns = {}
        self._metrics: LiveMetrics | None = None
        self._metric_columns: Columns = {}
        self._sampled_at_s: Columns = {}
        self._observed = ObservedDemand()
        self._arrivals = Arrivals()

    def snapshot(
        self, ledger: Ledger, metrics: LiveMetrics, now_s: float, taken_at_s: float
    ) -> tuple[Snapshot, list[Notice]]:
        with ledger.lock:
            nodes_changed = self._read_nodes(ledger)
            requests = request_columns(self._nodes, self._node_columns["gpu_count"], ledger.sums)
            apps, waiting, notices = dict(ledger.apps), ledger.waiting, ledger.take_notices()
            protected = frozenset(ledger.protected)
        if nodes_changed or metrics is not self._metrics:
            self._read_metrics(ledger, metrics)
        columns = self._node_columns | requests | self._metric_columns
        # relative to the moment of the snapshot, which may be long ago: Snapshot.state_at adds what has passed since
        elapsed_s = self._wall() - (now_s - taken_at_s)
        ages_s = {group: elapsed_s - sampled for group, sampled in self._sampled_at_s.items()}
        snapshot = Snapshot(
            self._nodes,
            cluster_state(columns, ages_s),
            taken_at_s,
            self._observed,
            AppCounts(apps, self._nodes.index_of),
            waiting,
            protected,
        )
        return snapshot, notices

    def _read_nodes(self, ledger: Ledger) -> bool:
        if ledger.nodes_version == self._nodes_version:
            return False
        self._nodes_version = ledger.nodes_version
        self._nodes = NodeTable(ledger.nodes.values())
        self._node_columns = node_columns(self._nodes, self._rtt)
        return True

    def _read_metrics(self, ledger: Ledger, metrics: LiveMetrics) -> None:
        arrivals = self._arrivals.at(self._wall())
        self._metric_columns, self._sampled_at_s = metric_columns(self._nodes, metrics, self._node_columns, arrivals)
        if metrics is not self._metrics:
            self._observed = observed_demand(ledger.pods, metrics.pods)
        self._metrics = metrics
