"""The readable simulator: one cluster, one tape, one decision per pending pod.

``World`` holds the truth and advances it tick by tick; ``Knowledge`` holds what a sidecar could know, and only that
reaches ``state`` and ``demand``. The batch environment does the same in arrays, and a test keeps the two equal.

Order within a tick: the loads of the interval that begins now are computed from the pods that run; costs and
counters are added up; memory over capacity kills; the clock moves; pods end; maintenance starts and ends;
pods arrive; pods that waited too long are given up; metrics are scraped; scrapes that are due become visible.
Then waiting pods are offered for a decision, in order; one without a candidate waits for the next tick, and one that
was killed stays away for a while, each time for longer, as the kubelet backs off.
"""

from __future__ import annotations

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.errors import InputError
from envs.dynamics import costs, loading, observing
from envs.dynamics.accounting import account
from envs.dynamics.cluster import Cluster, Waiting
from envs.dynamics.contention import back_off_s, oom_badness_mib
from envs.dynamics.knowledge import Knowledge, Placement
from envs.dynamics.loading import Loads
from envs.workloads.tape import Tape

__all__ = ["LONG_AGO_S", "QUEUE_LIMIT", "Loads", "World"]

QUEUE_LIMIT = 512  # pods that may wait; one more is given up at once
LONG_AGO_S = -1e9  # when the pods were bound that already run at the start


class World(Cluster):
    """A cluster that waits for one decision at a time; ``done`` when the horizon is reached."""

    def __init__(self, tape: Tape, assume: bool = True) -> None:
        super().__init__(tape)
        self.knowledge = Knowledge(tape, assume)
        self.ticks = 0
        self.decisions = 0
        self.done = False
        self.arrived = 0  # pods of the tape that have come so far
        self.offered = 0  # where in the queue the search for a decision goes on
        self.mask = np.zeros(tape.node_slots, dtype=np.bool_)
        self.last_loads: Loads | None = None
        self.terms = costs.no_costs()
        self._maintain()
        self._populate()
        self._until_decision()
        self.terms = costs.no_costs()  # what happened before the first decision is nobody's doing

    # --- what the outside may ask

    @property
    def pod(self) -> int:
        """The pod of the tape that waits for a decision."""
        return self.waiting[self.offered].pod

    def candidates(self) -> BoolArray:
        return self.mask.copy()

    def state(self) -> ClusterState:
        return self.knowledge.state(self.clock_s, self.running, self.schedulable)

    def demand(self) -> Demand:
        """Of the pod that waits for a decision; after the horizon none does."""
        queue_length = self.queue_length()
        return self.knowledge.no_demand(queue_length) if self.done else self.knowledge.demand(self.pod, queue_length)

    def queue_length(self) -> int:
        """Pods that a sidecar sees waiting: this one, and those that were left over by an earlier tick.

        kube-scheduler places pods that come together faster than any watch tells of them, so nobody sees a burst wait.
        """
        decided = -1 if self.done else self.offered
        return sum(at == decided or pod.since_s < self.clock_s for at, pod in enumerate(self.waiting))

    def bound_to(self, node: int) -> int:
        """Where the pod goes if we prefer this node: other plugins' scores are added, now and then another one wins."""
        override = float(self.tape.pod_override[self.pod])
        if override < 0:
            return node
        others = np.flatnonzero(self.mask)
        return int(others[min(int(override * len(others)), len(others) - 1)])

    def step(self, node: int) -> FloatArray:
        """Place the pod, go on to the next decision, return the costs of the time between (see costs.TERMS)."""
        if self.done:
            raise InputError("the episode is over: make a new World")
        if not 0 <= node < self.tape.node_slots or not self.mask[node]:
            raise InputError(f"node {node} is no candidate; candidates are {np.flatnonzero(self.mask).tolist()}")
        self._decide(node)
        self.terms = costs.no_costs()
        self._until_decision()
        return self.terms

    def skip(self) -> FloatArray:
        """Place nothing: the pod waits for the next tick; the costs until the next decision, as in ``step``."""
        if self.done:
            raise InputError("the episode is over: make a new World")
        self.offered += 1
        self.terms = costs.no_costs()
        self._until_decision()
        return self.terms

    # --- decisions

    def _until_decision(self) -> None:
        while not self.done:
            while self.offered < len(self.waiting):
                if self._to_place():
                    return
                self.offered += 1
            self._advance()

    def _to_place(self) -> bool:
        """Whether the pod that is offered need not stay away any more, and has a candidate."""
        if self.waiting[self.offered].since_s > self.clock_s:
            return False
        self.mask = self.feasible(self.pod)
        return bool(self.mask.any())

    def _decide(self, node: int) -> None:
        demand = self.demand()
        pod, bound = self.pod, self.bound_to(node)
        del self.waiting[self.offered]
        placement = self.place(pod, bound, self.clock_s)
        placement.visible_at = self.decisions + int(self.tape.pod_visible_after[pod])
        placement.expected_cpu_millicores = float(demand.expected_cpu_millicores)
        placement.expected_memory_mib = float(demand.expected_memory_mib)
        placement.expected_rx_mbps = float(demand.expected_rx_mbps)
        placement.expected_tx_mbps = float(demand.expected_tx_mbps)
        if self.knowledge.assumes:
            self.knowledge.assume(placement, node)
        self.decisions += 1
        self._reveal()

    def _reveal(self) -> None:
        """The watch shows bindings some decisions late."""
        for placement in self.running:
            known = (placement.known_node, placement.known_gpus) == (placement.node, placement.gpus)
            if placement.visible_at < self.decisions and not known:
                self.knowledge.show(placement)

    def _populate(self) -> None:
        """Put the initial pods somewhere: the first node that accepts them, from a random one on."""
        while self.arrived < self.tape.pod_slots and self.tape.pod_initial[self.arrived]:
            node = self.first_accepting(self.arrived)
            if node is not None:
                self.knowledge.show(self.place(self.arrived, node, LONG_AGO_S))
            self.arrived += 1

    # --- time

    def _advance(self) -> None:
        loads = self._loads()
        self._account(loads)
        tick_s = float(self.tape.tick_s)
        scrapes = self._scrape_due((self.ticks + 1) * tick_s)
        observed = observing.observe(self, loads) if scrapes else None
        self._kill(loads)
        self.ticks += 1
        self.clock_s = self.ticks * tick_s
        self._end()
        self._maintain()
        self._arrive()
        self._give_up()
        if observed is not None:
            self.knowledge.scrape(observing.sample(self, loads, self.knowledge.scraped, *observed))
        self.knowledge.publish(self.clock_s)
        self.last_loads = loads
        self.offered = 0
        self.done = bool(self.clock_s >= self.tape.horizon_s)
        if self.done:
            self.mask = self.schedulable.copy()

    def _loads(self) -> Loads:
        return loading.loads_of(self)

    def _account(self, loads: Loads) -> None:
        account(self, loads, self.terms)

    def _scrape_due(self, clock_s: float) -> bool:
        return bool(clock_s >= self.knowledge.scraped * self.tape.scrape_interval_s)

    def _kill(self, loads: Loads) -> None:
        """Memory over capacity: the pod furthest above its request is stopped, and comes back after a while."""
        for node in range(self.nodes):
            used_mib = loads.memory_mib[node]
            while used_mib > self.tape.node_memory_mib[node]:
                victim = self._worst(loads, node)
                if victim is None:
                    break
                used_mib -= loads.pod_memory_mib[victim]
                self.terms[costs.KILLS] += 1
                pod = self.running[victim].pod
                self.killed[pod] += 1
                self._requeue(self.running[victim], back_off_s(int(self.killed[pod])))
        self._drop_evicted()

    def _worst(self, loads: Loads, node: int) -> int | None:
        worst, badness = None, -np.inf
        for index, placement in enumerate(self.running):
            if placement.node != node:  # killed ones are on no node
                continue
            request_mib = float(self.tape.pod_memory_request_mib[placement.pod])
            this = oom_badness_mib(loads.pod_memory_mib[index], request_mib)
            if this > badness:
                worst, badness = index, this
        return worst

    def _requeue(self, placement: Placement, away_s: float = 0.0) -> None:
        """Off its node and back to the end of the queue, with the time it still has to run."""
        self.remaining_s[placement.pod] = max(placement.ends_at_s - self.clock_s, 0.0)
        self._release(placement)
        placement.node = -1
        self._queue(placement.pod, away_s)

    def _release(self, placement: Placement) -> None:
        """The pod has left its node; the watch shows it at once."""
        self.vacate(placement)
        self.knowledge.leave(placement, self.clock_s)

    def _queue(self, pod: int, away_s: float = 0.0) -> None:
        if len(self.waiting) >= QUEUE_LIMIT:
            self.terms[costs.FAILURES] += 1
            return
        self.waiting.append(Waiting(pod, self.clock_s + away_s))

    def _drop_evicted(self) -> None:
        self.running = [placement for placement in self.running if placement.node >= 0]

    def _maintain(self) -> None:
        """A node under maintenance takes no pods, and those it has are drained."""
        tape = self.tape
        begun, over = tape.node_maintenance_start_s <= self.clock_s, tape.node_maintenance_end_s <= self.clock_s
        self.schedulable = (tape.node_cpu_millicores > 0) & ~(begun & ~over)
        for placement in self.running:
            if not self.schedulable[placement.node]:
                self._requeue(placement)
        self._drop_evicted()

    def _end(self) -> None:
        for placement in self.running:
            if placement.ends_at_s <= self.clock_s:
                self._release(placement)
        self.running = [placement for placement in self.running if placement.ends_at_s > self.clock_s]

    def _arrive(self) -> None:
        while self.arrived < self.tape.pod_slots and float(self.tape.pod_arrival_s[self.arrived]) <= self.clock_s:
            self._queue(self.arrived)
            self.arrived += 1

    def _give_up(self) -> None:
        limit_s = float(self.tape.pending_timeout_s)
        kept = [waiting for waiting in self.waiting if self.clock_s - waiting.since_s <= limit_s]
        self.terms[costs.FAILURES] += len(self.waiting) - len(kept)
        self.waiting = kept
