"""The readable simulator: one cluster, one tape, one decision per pending pod.

``World`` holds the truth and advances it tick by tick; ``Knowledge`` holds what a sidecar could know, and only that
reaches ``state`` and ``demand``. The batch environment does the same in arrays, and a test keeps the two equal.

Order within a tick: the loads of the interval that begins now are computed from the pods that run; costs and
counters are added up; memory over capacity kills; the clock moves; pods end; maintenance starts and ends;
pods arrive; pods that waited too long are given up; metrics are scraped; scrapes that are due become visible.
Then waiting pods are offered for a decision, in order; one without a candidate waits for the next tick.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.errors import InputError
from agent.feasibility import fits
from agent.gpu import NO_FIT, choose_gpus, take_gpus
from envs.dynamics import costs, usage
from envs.dynamics.contention import (
    carried,
    carried_ratio,
    latency_violation,
    lost,
    oom_badness_mib,
    stranded_cores,
)
from envs.dynamics.knowledge import (
    CPU_RATIO,
    MEMORY_RATIO,
    OBSERVED,
    RX,
    TX,
    Knowledge,
    Placement,
    Sample,
    every_gpu_free,
)
from envs.dynamics.sampling import candidates_wanted, first_node, latency_allows
from envs.dynamics.traffic import cross_zone_share, remote_share, sibling_traffic_mbps
from envs.workloads.tape import Tape

QUEUE_LIMIT = 512  # pods that may wait; one more is given up at once
LONG_AGO_S = -1e9  # when the pods were bound that already run at the start


@dataclass(slots=True)
class Waiting:
    pod: int
    since_s: float


@dataclass(slots=True)
class Loads:
    """What is asked of every node during one tick, and what each running pod asks (in order of ``running``)."""

    cpu_millicores: FloatArray
    memory_mib: FloatArray
    rx_mbps: FloatArray
    tx_mbps: FloatArray
    pod_cpu_millicores: list[float] = field(default_factory=list)
    pod_memory_mib: list[float] = field(default_factory=list)
    pod_rx_mbps: list[float] = field(default_factory=list)
    pod_tx_mbps: list[float] = field(default_factory=list)
    cross_zone_mbps: float = 0.0
    violations: float = 0.0


class World:
    """A cluster that waits for one decision at a time; ``done`` when the horizon is reached."""

    def __init__(self, tape: Tape, assume: bool = True) -> None:
        self.tape = tape
        self.nodes = int((tape.node_cpu_millicores > 0).sum())
        self.knowledge = Knowledge(tape, assume)
        self.clock_s = 0.0
        self.ticks = 0
        self.decisions = 0
        self.done = False
        self.running: list[Placement] = []
        self.waiting: list[Waiting] = []
        self.remaining_s = tape.pod_duration_s.astype(np.float64)
        self.arrived = 0  # pods of the tape that have come so far
        self.offered = 0  # where in the queue the search for a decision goes on
        self.mask = np.zeros(tape.node_slots, dtype=np.bool_)
        self.cpu_allocated_millicores = np.zeros(tape.node_slots)
        self.memory_allocated_mib = np.zeros(tape.node_slots)
        self.pods = np.zeros(tape.node_slots)
        self.app_pods = np.zeros((tape.app_slots, tape.node_slots))
        self.gpu_free_milli = every_gpu_free(tape)
        self.schedulable = tape.node_cpu_millicores > 0
        self.cpu_millicore_s = np.zeros(tape.node_slots)
        self.rx_mbit = np.zeros(tape.node_slots)
        self.tx_mbit = np.zeros(tape.node_slots)
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
        queue_length = len(self.waiting)
        return self.knowledge.no_demand(queue_length) if self.done else self.knowledge.demand(self.pod, queue_length)

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
                self.mask = self._feasible(self.pod)
                if self.mask.any():
                    return
                self.offered += 1
            self._advance()

    def _feasible(self, pod: int) -> BoolArray:
        """The nodes that kube-scheduler would offer: the first feasible ones from where it starts to look."""
        tape, mask = self.tape, np.zeros(self.tape.node_slots, dtype=np.bool_)
        wanted = candidates_wanted(self.nodes, int(tape.candidate_minimum))
        start = first_node(float(tape.pod_start[pod]), self.nodes)
        for offset in range(self.nodes):
            node = (start + offset) % self.nodes
            if wanted > 0 and self._accepts(node, pod):
                mask[node] = True
                wanted -= 1
        return mask

    def _accepts(self, node: int, pod: int) -> bool:
        tape = self.tape
        roomy = fits(
            tape.node_cpu_millicores[node] - self.cpu_allocated_millicores[node],
            tape.node_memory_mib[node] - self.memory_allocated_mib[node],
            tape.node_pods[node] - self.pods[node],
            float(tape.pod_cpu_request_millicores[pod]),
            float(tape.pod_memory_request_mib[pod]),
        )
        near = latency_allows(float(tape.node_user_latency_ms[node]), float(tape.pod_latency_hard_ms[pod]))
        gpus, gpu_milli = int(tape.pod_gpus[pod]), float(tape.pod_gpu_milli[pod])
        devices = gpus == 0 or choose_gpus(self.gpu_free_milli[node], gpus, gpu_milli) != NO_FIT
        return bool(self.schedulable[node] and roomy and near and devices)

    def _decide(self, node: int) -> None:
        demand = self.demand()
        pod, bound = self.pod, self._bound_to(node)
        del self.waiting[self.offered]
        placement = self._place(pod, bound, self.clock_s)
        placement.visible_at = self.decisions + int(self.tape.pod_visible_after[pod])
        placement.expected_cpu_millicores = float(demand.expected_cpu_millicores)
        placement.expected_memory_mib = float(demand.expected_memory_mib)
        placement.expected_rx_mbps = float(demand.expected_rx_mbps)
        placement.expected_tx_mbps = float(demand.expected_tx_mbps)
        if self.knowledge.assumes:
            self.knowledge.assume(placement, node)
        self.decisions += 1
        self._reveal()

    def _bound_to(self, node: int) -> int:
        """Other plugins' scores are added to ours: now and then another candidate wins."""
        override = float(self.tape.pod_override[self.pod])
        if override < 0:
            return node
        others = np.flatnonzero(self.mask)
        return int(others[min(int(override * len(others)), len(others) - 1)])

    def _reveal(self) -> None:
        """The watch shows bindings some decisions late."""
        for placement in self.running:
            known = (placement.known_node, placement.known_gpus) == (placement.node, placement.gpus)
            if placement.visible_at < self.decisions and not known:
                self.knowledge.show(placement)

    def _place(self, pod: int, node: int, bound_at_s: float) -> Placement:
        tape = self.tape
        gpus, gpu_milli = int(tape.pod_gpus[pod]), float(tape.pod_gpu_milli[pod])
        chosen = choose_gpus(self.gpu_free_milli[node], gpus, gpu_milli) if gpus else 0
        take_gpus(self.gpu_free_milli[node], chosen, gpu_milli)
        ends_at_s = self.clock_s + float(self.remaining_s[pod])
        placement = Placement(pod, node, -1, bound_at_s, ends_at_s, chosen, visible_at=-1)
        self._allocate(placement, +1.0)
        self.running.append(placement)
        return placement

    def _allocate(self, placement: Placement, sign: float) -> None:
        pod, node = placement.pod, placement.node
        self.cpu_allocated_millicores[node] += sign * float(self.tape.pod_cpu_request_millicores[pod])
        self.memory_allocated_mib[node] += sign * float(self.tape.pod_memory_request_mib[pod])
        self.pods[node] += sign
        self.app_pods[self.tape.pod_app[pod], node] += sign

    def _release(self, placement: Placement) -> None:
        """The pod has left its node; the watch shows it at once."""
        self._allocate(placement, -1.0)
        take_gpus(self.gpu_free_milli[placement.node], placement.gpus, -float(self.tape.pod_gpu_milli[placement.pod]))
        self.knowledge.forget(placement)

    def _populate(self) -> None:
        """Put the initial pods somewhere: the first node that accepts them, from a random one on."""
        while self.arrived < self.tape.pod_slots and self.tape.pod_initial[self.arrived]:
            start = first_node(float(self.tape.pod_start[self.arrived]), self.nodes)
            order = ((start + offset) % self.nodes for offset in range(self.nodes))
            node = next((node for node in order if self._accepts(node, self.arrived)), None)
            if node is not None:
                self.knowledge.show(self._place(self.arrived, node, LONG_AGO_S))
            self.arrived += 1

    # --- time

    def _advance(self) -> None:
        loads = self._loads()
        self._account(loads)
        tick_s = float(self.tape.tick_s)
        scrapes = self._scrape_due((self.ticks + 1) * tick_s)
        observed = self._observe(loads) if scrapes else None
        self._kill(loads)
        self.ticks += 1
        self.clock_s = self.ticks * tick_s
        self._end()
        self._maintain()
        self._arrive()
        self._give_up()
        if observed is not None:
            self.knowledge.scrape(self._sample(loads, *observed))
        self.knowledge.publish(self.clock_s)
        self.last_loads = loads
        self.offered = 0
        self.done = bool(self.clock_s >= self.tape.horizon_s)
        if self.done:
            self.mask = self.schedulable.copy()

    def _load_step(self) -> int:
        return min(int(self.clock_s / float(self.tape.load_step_s)), int(self.tape.app_load.shape[0]) - 1)

    def _loads(self) -> Loads:
        tape, step = self.tape, self._load_step()
        loads = Loads(
            tape.background_cpu_ratio[step] * tape.node_cpu_millicores,
            tape.node_background_memory_mib.copy(),
            tape.background_rx_ratio[step] * tape.node_nic_mbps,
            tape.background_tx_ratio[step] * tape.node_nic_mbps,
        )
        app_totals = self.app_pods.sum(axis=1)
        zones = range(tape.zone_slots)
        zone_totals = np.stack([self.app_pods[:, tape.node_zone == zone].sum(axis=1) for zone in zones])
        for placement in self.running:
            load = float(tape.app_load[step, tape.pod_app[placement.pod]])
            self._add_pod(loads, placement, load, app_totals, zone_totals)
        return loads

    def _add_pod(
        self, loads: Loads, placement: Placement, load: float, app_totals: FloatArray, zone_totals: FloatArray
    ) -> None:
        tape, pod, node = self.tape, placement.pod, placement.node
        app, zone = int(tape.pod_app[pod]), int(tape.node_zone[node])
        total, in_zone = float(app_totals[app]), zone_totals[:, app]
        cpu = usage.cpu_demand_millicores(
            float(tape.pod_cpu_request_millicores[pod]), float(tape.pod_cpu_use_ratio[pod]), load
        )
        memory = usage.memory_use_mib(float(tape.pod_memory_request_mib[pod]), float(tape.pod_memory_use_ratio[pod]))
        sibling = sibling_traffic_mbps(float(tape.app_sibling_mbps[app]), total, load)
        remote = sibling * remote_share(total, float(self.app_pods[app, node]))
        rx, tx = float(tape.pod_rx_mbps[pod]) * load, float(tape.pod_tx_mbps[pod]) * load
        loads.cpu_millicores[node] += cpu
        loads.memory_mib[node] += memory
        loads.rx_mbps[node] += rx + remote
        loads.tx_mbps[node] += tx + remote
        loads.cross_zone_mbps += sibling * cross_zone_share(total, float(in_zone[zone]))
        loads.violations += self._violation(placement, total, in_zone)
        loads.pod_cpu_millicores.append(cpu)
        loads.pod_memory_mib.append(memory)
        loads.pod_rx_mbps.append(rx + sibling)
        loads.pod_tx_mbps.append(tx + sibling)

    def _violation(self, placement: Placement, total: float, in_zone: FloatArray) -> float:
        """Latency of a pod: to its users, plus the mean round trip to its siblings."""
        tape, pod, node = self.tape, placement.pod, placement.node
        soft_ms = float(tape.pod_latency_soft_ms[pod])
        if np.isnan(soft_ms):
            return 0.0
        zone = int(tape.node_zone[node])
        rtt_ms = 0.0
        for other in range(tape.zone_slots):
            rtt_ms += in_zone[other] * tape.zone_rtt_ms[zone, other]
        rtt_ms -= self.app_pods[tape.pod_app[pod], node] * tape.zone_rtt_ms[zone, zone]
        latency_ms = float(tape.node_user_latency_ms[node]) + rtt_ms / max(total - 1.0, 1.0)
        return latency_violation(latency_ms, soft_ms, float(tape.pod_latency_hard_ms[pod]))

    def _account(self, loads: Loads) -> None:
        """Costs of the tick, and the counters that the node exporters would show."""
        tape, terms, tick_s = self.tape, self.terms, float(self.tape.tick_s)
        busy = []
        for node in range(self.nodes):
            cpu, nic = float(tape.node_cpu_millicores[node]), float(tape.node_nic_mbps[node])
            cpu_carried = carried(loads.cpu_millicores[node], cpu)
            rx_carried, tx_carried = carried(loads.rx_mbps[node], nic), carried(loads.tx_mbps[node], nic)
            self.cpu_millicore_s[node] += cpu_carried * tick_s
            self.rx_mbit[node] += rx_carried * tick_s
            self.tx_mbit[node] += tx_carried * tick_s
            lost_mbps = lost(loads.rx_mbps[node], nic) + lost(loads.tx_mbps[node], nic)
            terms[costs.NETWORK_LOSS] += lost_mbps * tick_s / costs.MBIT_PER_GB
            terms[costs.THROTTLING] += lost(loads.cpu_millicores[node], cpu) / 1000.0 * tick_s
            cpu_free = 1.0 - self.cpu_allocated_millicores[node] / cpu
            memory_free = 1.0 - self.memory_allocated_mib[node] / float(tape.node_memory_mib[node])
            terms[costs.FRAGMENTATION] += stranded_cores(cpu_free, memory_free, cpu) * tick_s
            watts = usage.node_power_watts(
                float(tape.node_power_idle_watts[node]),
                float(tape.node_power_peak_watts[node]),
                cpu_carried / cpu,
                self.pods[node],
            )
            terms[costs.ENERGY] += watts * tick_s / costs.JOULES_PER_KWH
            price = usage.active_price_usd_per_hour(float(tape.node_price_usd_per_hour[node]), self.pods[node])
            terms[costs.MONEY] += price * tick_s / costs.SECONDS_PER_HOUR
            busy.append(max(cpu_carried / cpu, rx_carried / nic, tx_carried / nic))
        terms[costs.IMBALANCE] += float(np.std(busy)) * tick_s
        terms[costs.CROSS_ZONE] += loads.cross_zone_mbps * tick_s / costs.MBIT_PER_GB
        terms[costs.LATENCY] += loads.violations * tick_s
        terms[costs.PENDING] += len(self.waiting) * tick_s

    def _kill(self, loads: Loads) -> None:
        """Memory over capacity: the pod furthest above its request goes back to the queue."""
        for node in range(self.nodes):
            used_mib = loads.memory_mib[node]
            while used_mib > self.tape.node_memory_mib[node]:
                victim = self._worst(loads, node)
                if victim is None:
                    break
                used_mib -= loads.pod_memory_mib[victim]
                self.terms[costs.KILLS] += 1
                self._requeue(self.running[victim])
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

    def _requeue(self, placement: Placement) -> None:
        """Off its node and back to the end of the queue, with the time it still has to run."""
        self.remaining_s[placement.pod] = max(placement.ends_at_s - self.clock_s, 0.0)
        self._release(placement)
        placement.node = -1
        self._queue(placement.pod)

    def _queue(self, pod: int) -> None:
        if len(self.waiting) >= QUEUE_LIMIT:
            self.terms[costs.FAILURES] += 1
            return
        self.waiting.append(Waiting(pod, self.clock_s))

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

    # --- what a scrape would show

    def _scrape_due(self, clock_s: float) -> bool:
        return bool(clock_s >= self.knowledge.scraped * self.tape.scrape_interval_s)

    def _sample(self, loads: Loads, apps: FloatArray, cluster: FloatArray) -> Sample:
        row = min(self.knowledge.scraped, self.tape.scrape_missing.shape[0] - 1)
        rx_mbps = np.minimum(loads.rx_mbps, self.tape.node_nic_mbps)
        tx_mbps = np.minimum(loads.tx_mbps, self.tape.node_nic_mbps)
        return Sample(
            sampled_at_s=self.clock_s,
            present=~self.tape.scrape_missing[row],
            cpu_millicore_s=self.cpu_millicore_s.copy(),
            rx_mbit=self.rx_mbit.copy(),
            tx_mbit=self.tx_mbit.copy(),
            memory_mib=np.minimum(loads.memory_mib, self.tape.node_memory_mib),
            connections=usage.connections(rx_mbps + tx_mbps),
            apps=apps,
            cluster=cluster,
        )

    def _observe(self, loads: Loads) -> tuple[FloatArray, FloatArray]:
        """What pods are seen to use, by app (NaN where none is seen) and over the cluster."""
        if not self.tape.pod_metrics:
            return np.full((self.tape.app_slots, OBSERVED), np.nan), self._observe_nodes(loads)
        used = np.zeros((self.tape.app_slots + 1, OBSERVED))  # the last row is the whole cluster
        base = np.zeros((self.tape.app_slots + 1, OBSERVED))
        for index, placement in enumerate(self.running):
            seen, per = self._observe_pod(loads, index, placement)
            for row in (int(self.tape.pod_app[placement.pod]), self.tape.app_slots):
                if row == self.tape.app_slots or self.tape.pod_labelled[placement.pod]:
                    used[row] += seen
                    base[row] += per
        means = np.where(base > 0, used / np.where(base > 0, base, 1.0), np.nan)
        return means[:-1], means[-1]

    def _observe_pod(self, loads: Loads, index: int, placement: Placement) -> tuple[FloatArray, FloatArray]:
        tape, pod, node = self.tape, placement.pod, placement.node
        nic_mbps = float(tape.node_nic_mbps[node])
        seen = np.zeros(OBSERVED)
        seen[RX] = loads.pod_rx_mbps[index] * carried_ratio(loads.rx_mbps[node], nic_mbps)
        seen[TX] = loads.pod_tx_mbps[index] * carried_ratio(loads.tx_mbps[node], nic_mbps)
        cpu_share = carried_ratio(loads.cpu_millicores[node], float(tape.node_cpu_millicores[node]))
        seen[CPU_RATIO] = loads.pod_cpu_millicores[index] * cpu_share
        seen[MEMORY_RATIO] = loads.pod_memory_mib[index]
        per = np.ones(OBSERVED)
        per[CPU_RATIO] = float(tape.pod_cpu_request_millicores[pod])
        per[MEMORY_RATIO] = float(tape.pod_memory_request_mib[pod])
        return seen, per

    def _observe_nodes(self, loads: Loads) -> FloatArray:
        """Without metrics of pods: the nodes' totals over what runs there, background included."""
        tape, pods = self.tape, self.pods.sum()
        used = np.zeros(OBSERVED)
        used[RX] = np.minimum(loads.rx_mbps, tape.node_nic_mbps).sum()
        used[TX] = np.minimum(loads.tx_mbps, tape.node_nic_mbps).sum()
        used[CPU_RATIO] = np.minimum(loads.cpu_millicores, tape.node_cpu_millicores).sum()
        used[MEMORY_RATIO] = np.minimum(loads.memory_mib, tape.node_memory_mib).sum()
        base = np.array([pods, pods, self.cpu_allocated_millicores.sum(), self.memory_allocated_mib.sum()])
        return np.where(base > 0, used / np.where(base > 0, base, 1.0), np.nan)
