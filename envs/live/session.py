"""A scheduler's life at a real cluster, one decision at a time: which pod, which nodes could take it, bind, look after.

Only pods that name its ``schedulerName`` are touched, and only nodes that are feasible by the newest snapshot are bound
to. Calls wait, each within a time limit; the watch and the metrics come in by threads of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from agent.assumed import Assumed, expected_of, requests_of
from agent.breaker import Clock
from agent.cluster import BoolArray, ClusterState, Demand, Pod
from agent.demand import demand_of
from agent.errors import InputError
from agent.feasibility import feasibility
from envs.live.binding import Binding, BindingRefused, BindingUnanswered
from envs.live.cluster import REFRESH_EVERY_S
from envs.live.cluster_settings import ClusterSettings
from envs.live.kubernetes.access import find_access
from envs.live.kubernetes.api import ApiServer
from envs.live.kubernetes.binding import ApiBinder
from envs.live.kubernetes.connecting import live_cluster
from envs.live.ledger import Ledger
from envs.live.placements import AssumedPlacements
from envs.live.prometheus import PrometheusSource
from envs.live.prometheus_settings import PrometheusSettings
from envs.live.snapshot import Snapshot
from envs.live.waiting import WaitingPods

T = TypeVar("T")

LOOK_EVERY_S = 0.05
PUT_OFF_S = 5.0  # a pod that could not be bound: somebody else may be about to
UNANSWERED_S = 10.0  # the watch is given so long to show a binding that nobody answered for
ASKED_FOR_S = 30.0  # an answer of ours counts until the watch shows it, at most so long


@dataclass(frozen=True, slots=True)
class LiveDecision:
    """A pod that waits, with the cluster as it is known now."""

    pod: Pod
    names: tuple[str, ...]
    state: ClusterState
    demand: Demand
    mask: BoolArray  # (nodes,): feasible; at least one is
    waiting: int  # pods of this scheduler, this one included
    at_s: float

    @property
    def pod_name(self) -> str:
        return f"{self.pod.namespace}/{self.pod.name}"


class LiveSession:
    """Connects when it is made; ``close`` ends every thread and connection."""

    def __init__(
        self,
        cluster: ClusterSettings,
        prometheus: PrometheusSettings,
        scheduler_name: str,
        clock: Clock = time.monotonic,
    ) -> None:
        self.clock = clock
        self.waiting = WaitingPods(scheduler_name)
        self._api = ApiServer(find_access(cluster.kubeconfig, cluster.context))
        self._binder = ApiBinder(self._api)
        self._assumed = Assumed(ASKED_FOR_S, window_s=prometheus.window_s)

        ledger = Ledger()
        metrics = PrometheusSource(prometheus, ledger.node_addresses, on_read=ledger.changed.set)
        listeners = [AssumedPlacements(self._assumed, clock)]
        self._cluster = live_cluster(cluster, self._api, ledger, metrics, clock, listeners, waiting=self.waiting)
        self._cluster.start()

    def close(self) -> None:
        self._cluster.stop()
        self._api.close()

    def seen(self, within_s: float) -> Snapshot:
        """A first snapshot with metrics; an ``InputError`` says what is missing."""

        def look() -> Snapshot | None:
            snapshot = self._cluster.snapshot()
            return snapshot if snapshot is not None and np.isfinite(snapshot.state.network_age_s).any() else None

        found = self._eventually(look, within_s)
        if found is None:
            problems = "; ".join(self._cluster.problems()) or "no node has metrics of its network"
            raise InputError(f"the cluster is not seen within {within_s:g} s: {problems}")
        return found

    def decision(self, within_s: float) -> LiveDecision | None:
        """The next pod that some node could take; None if none waits for so long."""
        return self._eventually(self._next, within_s)

    def place(self, decision: LiveDecision, node: int) -> float:
        """Bind the pod and say when; raises ``BindingRefused`` where nothing is bound, and puts the pod off."""
        pod, name = decision.pod, decision.names[node]
        now_s = self.clock()
        try:
            self._refuse_infeasible(pod, name, now_s)
            requests, expected = requests_of(decision.demand), expected_of(decision.demand)
            self._assumed.assume(pod.uid, name, requests, expected, now_s, pod.app_key)
            self._bind(Binding(pod.namespace, pod.name, pod.uid, name))
        except BindingRefused:
            self._assumed.deleted(pod.uid)
            self.waiting.put_off((pod.namespace, pod.name), now_s + PUT_OFF_S)
            raise
        self.waiting.forget((pod.namespace, pod.name))
        return self.clock()

    def measured(self, name: str, since_s: float, within_s: float) -> Snapshot | None:
        """A snapshot in which CPU and traffic of this node were sampled at ``since_s`` or later."""

        def look() -> Snapshot | None:
            snapshot = self._cluster.snapshot()
            if snapshot is None or name not in snapshot.index_of:
                return None
            node, state = snapshot.index_of[name], snapshot.state
            age_s = max(float(state.cpu_age_s[node]), float(state.network_age_s[node]))
            return snapshot if snapshot.taken_at_s - age_s >= since_s else None

        return self._eventually(look, within_s)

    def moment(self) -> None:
        """Until the cluster has been looked at again."""
        before = self._cluster.snapshot()
        self._eventually(lambda: None if self._cluster.snapshot() is before else True, REFRESH_EVERY_S + LOOK_EVERY_S)

    def _next(self) -> LiveDecision | None:
        now_s, snapshot = self.clock(), self._cluster.snapshot()
        if snapshot is None:
            return None
        for pod in self.waiting.in_order(now_s):
            state = snapshot.state_at(now_s, self._assumed, without_uid=pod.uid)
            mask = feasibility(snapshot.nodes, state, pod).mask
            if mask.any():
                siblings = snapshot.siblings_of(pod, self._assumed)
                demand = demand_of(pod, snapshot.observed, state, siblings, snapshot.queue_with(pod, self._assumed))
                return LiveDecision(pod, snapshot.nodes.names, state, demand, mask, len(self.waiting), now_s)
        return None

    def _bind(self, binding: Binding) -> None:
        """Where the answer is lost the watch tells: a pod that waits no more is bound."""
        try:
            self._binder.bind(binding)
        except BindingUnanswered:
            name = (binding.namespace, binding.pod)
            if self._eventually(lambda: not self.waiting.waits(name, binding.uid) or None, UNANSWERED_S) is None:
                raise

    def _refuse_infeasible(self, pod: Pod, name: str, now_s: float) -> None:
        """The API server binds to whatever it is told: a node that was cordoned meanwhile is found out here."""
        snapshot = self._cluster.snapshot()
        if snapshot is None or name not in snapshot.index_of:
            raise BindingRefused(f"node {name} is gone")
        state = snapshot.state_at(now_s, self._assumed, without_uid=pod.uid)
        why = feasibility(snapshot.nodes, state, pod).reasons.get(name)
        if why:
            raise BindingRefused(f"node {name} cannot take it any more: {'; '.join(why)}")

    def _eventually(self, look: Callable[[], T | None], within_s: float) -> T | None:
        until_s = self.clock() + within_s
        while True:
            found = look()
            if found is not None or self.clock() >= until_s:
                return found
            time.sleep(LOOK_EVERY_S)
