"""What a sidecar can know of the world: watches and scrapes, nothing else.

The truth calls ``assume``, ``show``, ``leave`` and ``scrape``; the answers to ``state`` and ``demand`` are built
from what those brought. True demand, durations, future arrivals and offered load never get here: CPU and
traffic arrive as counters of what was *carried*, and an observation changes only when a scrape is published.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np

from agent.cluster import GPU_MILLI, GPUS_PER_NODE, BoolArray, ClusterState, Demand, FloatArray
from agent.gpu import NO_FIT, choose_gpus, take_gpus
from agent.pending import pending_weight
from envs.dynamics.scraping import counter_rate, in_window, smoothed
from envs.workloads.tape import RING, Tape

# Columns of a per-app observation: what its pods were seen to use.
RX, TX, CPU_RATIO, MEMORY_RATIO = range(4)
OBSERVED = 4

ANNOTATION, SIBLINGS, _NAMESPACE, CLUSTER, NONE = range(5)  # as in agent.cluster.DEMAND_SOURCES


@dataclass(slots=True)
class Placement:
    """A pod that runs: where it is, where the sidecar believes it is, and what the sidecar expects of it."""

    pod: int
    node: int
    known_node: int  # -1: not known
    bound_at_s: float
    ends_at_s: float
    gpus: int  # the devices it took, as bits
    visible_at: int  # the number of the decision after which the watch shows it
    known_gpus: int = 0  # the devices that the sidecar believes it took
    expected_cpu_millicores: float = 0.0
    expected_memory_mib: float = 0.0
    expected_rx_mbps: float = 0.0
    expected_tx_mbps: float = 0.0


@dataclass(frozen=True, slots=True)
class Left:
    """A pod that has gone, whose use the metrics may show for a while."""

    pod: int
    node: int  # where the sidecar believed it
    bound_at_s: float
    left_at_s: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One scrape of everything: counters and gauges by node, means by app."""

    sampled_at_s: float
    present: BoolArray  # (nodes,)
    cpu_millicore_s: FloatArray
    rx_mbit: FloatArray
    tx_mbit: FloatArray
    memory_mib: FloatArray
    connections: FloatArray
    apps: FloatArray  # (apps, OBSERVED); NaN where nothing was seen
    cluster: FloatArray  # (OBSERVED,)


class Knowledge:
    def __init__(self, tape: Tape, assume: bool) -> None:
        nodes, apps = tape.node_slots, tape.app_slots
        self.tape = tape
        self.assumes = assume
        self.cpu_requested_millicores = np.zeros(nodes)
        self.memory_requested_mib = np.zeros(nodes)
        self.pods = np.zeros(nodes)
        self.gpu_free_milli = every_gpu_free(tape)
        self.app_pods = np.zeros((apps, nodes))
        self.left: list[Left] = []  # in order of leaving, as far as the metrics may show it
        self.samples: list[Sample] = []  # the last RING
        self.scraped = 0
        self.published = 0
        self.sampled_at_s = np.full(nodes, -np.inf)
        self.cpu_used_millicores = np.full(nodes, np.nan)
        self.cpu_std_millicores = np.full(nodes, np.nan)
        self.memory_used_mib = np.full(nodes, np.nan)
        self.rx_mbps = np.full(nodes, np.nan)
        self.tx_mbps = np.full(nodes, np.nan)
        self.connections = np.full(nodes, np.nan)
        self.app_observed = np.full((apps, OBSERVED), np.nan)
        self.cluster_observed = np.full(OBSERVED, np.nan)

    # --- the watch: what is requested where

    def assume(self, placement: Placement, node: int) -> None:
        """Believe that the pod went where we sent it, to the GPUs that look best from here."""
        pod = placement.pod
        chosen = choose_gpus(
            self.gpu_free_milli[node], int(self.tape.pod_gpus[pod]), float(self.tape.pod_gpu_milli[pod])
        )
        self._believe(placement, node, 0 if chosen == NO_FIT else chosen)

    def show(self, placement: Placement) -> None:
        """The watch shows where the pod really is."""
        self._forget(placement)
        self._believe(placement, placement.node, placement.gpus)

    def leave(self, placement: Placement, clock_s: float) -> None:
        """The pod is gone."""
        if self.assumes and placement.known_node >= 0:
            self.left.append(Left(placement.pod, placement.known_node, placement.bound_at_s, clock_s))
        self._forget(placement)

    def _forget(self, placement: Placement) -> None:
        if placement.known_node >= 0:
            self._count(placement, -1.0)
            placement.known_node = -1

    def _believe(self, placement: Placement, node: int, gpus: int) -> None:
        placement.known_node, placement.known_gpus = node, gpus
        self._count(placement, +1.0)

    def _count(self, placement: Placement, sign: float) -> None:
        pod, node = placement.pod, placement.known_node
        take_gpus(self.gpu_free_milli[node], placement.known_gpus, sign * float(self.tape.pod_gpu_milli[pod]))
        self.cpu_requested_millicores[node] += sign * float(self.tape.pod_cpu_request_millicores[pod])
        self.memory_requested_mib[node] += sign * float(self.tape.pod_memory_request_mib[pod])
        self.pods[node] += sign
        if self.tape.pod_labelled[pod]:
            self.app_pods[self.tape.pod_app[pod], node] += sign

    # --- metrics: samples, published late

    def scrape(self, sample: Sample) -> None:
        self.samples.append(sample)
        del self.samples[:-RING]
        self.scraped += 1

    def publish(self, clock_s: float) -> None:
        """Show every sample that is old enough to have arrived."""
        while self.published < self.scraped:
            index = self.published - (self.scraped - len(self.samples))
            if self.samples[index].sampled_at_s + self.tape.scrape_delay_s > clock_s:
                return
            self._publish(index)
            self.published += 1

    def _publish(self, index: int) -> None:
        newest = self.samples[index]
        window = [
            sample
            for sample in self.samples[: index + 1]
            if in_window(sample.sampled_at_s, newest.sampled_at_s, float(self.tape.rate_window_s))
        ]
        for node in range(self.tape.node_slots):
            self._publish_node(node, [sample for sample in window if sample.present[node]])
        for app, observed in enumerate(newest.apps):
            for column in range(OBSERVED):
                if not np.isnan(observed[column]):
                    self.app_observed[app, column] = smoothed(self.app_observed[app, column], observed[column])
        for column in range(OBSERVED):
            if not np.isnan(newest.cluster[column]):
                self.cluster_observed[column] = smoothed(self.cluster_observed[column], newest.cluster[column])

    def _publish_node(self, node: int, window: list[Sample]) -> None:
        """Gauges from the last sample, rates over the window; too few samples leave the old values to age."""
        if len(window) < 2:
            return
        first, last = window[0], window[-1]
        span = (last.sampled_at_s, first.sampled_at_s)
        self.cpu_used_millicores[node] = counter_rate(last.cpu_millicore_s[node], first.cpu_millicore_s[node], *span)
        self.rx_mbps[node] = counter_rate(last.rx_mbit[node], first.rx_mbit[node], *span)
        self.tx_mbps[node] = counter_rate(last.tx_mbit[node], first.tx_mbit[node], *span)
        self.memory_used_mib[node] = last.memory_mib[node]
        self.connections[node] = last.connections[node]
        self.sampled_at_s[node] = last.sampled_at_s
        squares = 0.0
        for before, after in pairwise(window):
            rate = counter_rate(
                after.cpu_millicore_s[node], before.cpu_millicore_s[node], after.sampled_at_s, before.sampled_at_s
            )
            squares += (rate - self.cpu_used_millicores[node]) ** 2
        self.cpu_std_millicores[node] = np.sqrt(squares / (len(window) - 1))

    # --- what a scorer is given

    def state(self, clock_s: float, running: list[Placement], schedulable: BoolArray) -> ClusterState:
        tape = self.tape
        pending = self._pending(clock_s, running)
        age_s = clock_s - self.sampled_at_s
        return ClusterState(
            cpu_allocatable_millicores=tape.node_cpu_millicores,
            memory_allocatable_mib=tape.node_memory_mib,
            pods_allocatable=tape.node_pods,
            gpu_count=tape.node_gpus.astype(np.float64),
            nic_mbps=np.where(tape.node_nic_known, tape.node_nic_mbps, np.nan),
            zone=tape.node_zone,
            user_latency_ms=tape.node_user_latency_ms,
            price_usd_per_hour=tape.node_price_usd_per_hour,
            power_idle_watts=tape.node_power_idle_watts,
            power_peak_watts=tape.node_power_peak_watts,
            schedulable=schedulable.copy(),
            cpu_requested_millicores=self.cpu_requested_millicores.copy(),
            memory_requested_mib=self.memory_requested_mib.copy(),
            pods_running=self.pods.copy(),
            gpu_free_milli=np.maximum(self.gpu_free_milli, 0.0),  # two may be believed on one device
            cpu_used_millicores=self.cpu_used_millicores.copy(),
            cpu_std_millicores=self.cpu_std_millicores.copy(),
            cpu_age_s=age_s,
            memory_used_mib=self.memory_used_mib.copy(),
            memory_age_s=age_s,
            rx_mbps=self.rx_mbps.copy(),
            tx_mbps=self.tx_mbps.copy(),
            connections=self.connections.copy(),
            network_age_s=age_s,
            pending_cpu_millicores=pending[0],
            pending_memory_mib=pending[1],
            pending_rx_mbps=pending[2],
            pending_tx_mbps=pending[3],
            pending_pods=pending[4],
            zone_rtt_ms=tape.zone_rtt_ms,
        )

    def pending_horizon_s(self) -> float:
        """Who came or went longer ago is in every window that is still fresh as he is now."""
        tape = self.tape
        return float(tape.rate_window_s + tape.scrape_delay_s + 2 * tape.scrape_interval_s)

    def _pending(self, clock_s: float, running: list[Placement]) -> FloatArray:
        """Expected use of who came, less what the windows show of it already, and of who went what they show still."""
        pending = np.zeros((5, self.tape.node_slots))
        if not self.assumes:
            return pending
        self._add_placed(pending, clock_s, running)
        self._take_left(pending, clock_s)
        measured = (self.cpu_used_millicores, self.memory_used_mib, self.rx_mbps, self.tx_mbps)
        pending[:4] = np.maximum(pending[:4], -np.nan_to_num(measured))  # what was carried cannot become less than 0
        return pending

    def _add_placed(self, pending: FloatArray, clock_s: float, running: list[Placement]) -> None:
        for placement in reversed(running):
            if placement.bound_at_s < clock_s - self.pending_horizon_s():
                break
            node = placement.known_node
            if node < 0:
                continue
            window_s = float(self.tape.rate_window_s)
            weight = float(pending_weight(placement.bound_at_s, self.sampled_at_s[node], window_s))
            pending[0, node] += weight * placement.expected_cpu_millicores
            pending[1, node] += (1.0 if weight >= 1.0 else 0.0) * placement.expected_memory_mib  # a gauge has no window
            pending[2, node] += weight * placement.expected_rx_mbps
            pending[3, node] += weight * placement.expected_tx_mbps
            pending[4, node] += weight

    def _take_left(self, pending: FloatArray, clock_s: float) -> None:
        self.left = [left for left in self.left if left.left_at_s >= clock_s - self.pending_horizon_s()]
        window_s = float(self.tape.rate_window_s)
        for left in self.left:
            pod, node, sampled_at_s = left.pod, left.node, self.sampled_at_s[left.node]
            came = float(pending_weight(left.bound_at_s, sampled_at_s, window_s))
            went = float(pending_weight(left.left_at_s, sampled_at_s, window_s))
            shown = went - came  # of the window: the part in which it ran
            cpu, memory = float(self.tape.pod_cpu_request_millicores[pod]), float(self.tape.pod_memory_request_mib[pod])
            pending[0, node] -= shown * cpu * self._expected(pod, CPU_RATIO, 0.0)
            if came < 1.0 and went >= 1.0:  # it ran when the gauge was read
                pending[1, node] -= memory * self._expected(pod, MEMORY_RATIO, 0.0)
            pending[2, node] -= shown * self._expected(pod, RX, 0.0)
            pending[3, node] -= shown * self._expected(pod, TX, 0.0)

    def demand(self, pod: int, queue_length: int) -> Demand:
        tape = self.tape
        source, rx_mbps, tx_mbps = self._expected_traffic(pod)
        cpu, memory = float(tape.pod_cpu_request_millicores[pod]), float(tape.pod_memory_request_mib[pod])
        on_node = self.app_pods[tape.pod_app[pod]] if tape.pod_labelled[pod] else np.zeros(tape.node_slots)
        total = on_node.sum()
        declared = tape.pod_labelled[pod] and tape.app_sibling_declared[tape.pod_app[pod]]
        return Demand(
            cpu_request_millicores=np.asarray(cpu),
            memory_request_mib=np.asarray(memory),
            gpus=np.asarray(float(tape.pod_gpus[pod])),
            gpu_milli=np.asarray(float(tape.pod_gpu_milli[pod])),
            expected_cpu_millicores=np.asarray(cpu * self._expected(pod, CPU_RATIO, 1.0)),
            expected_memory_mib=np.asarray(memory * self._expected(pod, MEMORY_RATIO, 1.0)),
            expected_rx_mbps=np.asarray(rx_mbps),
            expected_tx_mbps=np.asarray(tx_mbps),
            demand_source=np.asarray(source),
            sibling_mbps=np.asarray(float(tape.app_sibling_mbps[tape.pod_app[pod]]) if declared else np.nan),
            latency_soft_ms=np.asarray(float(tape.pod_latency_soft_ms[pod])),
            latency_hard_ms=np.asarray(float(tape.pod_latency_hard_ms[pod])),
            siblings=np.asarray(total),
            siblings_on_node=on_node.copy(),
            siblings_in_zone=self._in_zone(on_node),
            sibling_rtt_ms=self._rtt_ms(on_node, total),
            queue_length=np.asarray(float(queue_length)),
        )

    def no_demand(self, queue_length: int) -> Demand:
        """Nothing asked for: what an observation shows once no decision is left."""
        nothing, everywhere = np.asarray(0.0), np.zeros(self.tape.node_slots)
        numbers = {field.name: nothing for field in fields(Demand)}
        unlimited = dict.fromkeys(("sibling_mbps", "latency_soft_ms", "latency_hard_ms"), np.asarray(np.nan))
        by_node = dict.fromkeys(("siblings_on_node", "siblings_in_zone", "sibling_rtt_ms"), everywhere)
        queue = {"demand_source": np.asarray(NONE), "queue_length": np.asarray(float(queue_length))}
        return Demand(**{**numbers, **unlimited, **by_node, **queue})

    def _expected(self, pod: int, column: int, otherwise: float) -> float:
        """The siblings' mean, else the cluster's, else what is given."""
        if self.tape.pod_labelled[pod]:
            observed = float(self.app_observed[self.tape.pod_app[pod], column])
            if not np.isnan(observed):
                return observed
        observed = float(self.cluster_observed[column])
        return otherwise if np.isnan(observed) else observed

    def _expected_traffic(self, pod: int) -> tuple[int, float, float]:
        annotated = float(self.tape.pod_annotated_mbps[pod])
        if not np.isnan(annotated):
            return ANNOTATION, annotated, annotated
        by_app = self.tape.pod_labelled[pod] and not np.isnan(self.app_observed[self.tape.pod_app[pod], RX])
        by_cluster = not np.isnan(self.cluster_observed[RX])
        source = SIBLINGS if by_app else CLUSTER if by_cluster else NONE
        return source, self._expected(pod, RX, 0.0), self._expected(pod, TX, 0.0)

    def _in_zone(self, on_node: FloatArray) -> FloatArray:
        by_zone = np.bincount(self.tape.node_zone, weights=on_node, minlength=self.tape.zone_slots)
        return np.asarray(by_zone[self.tape.node_zone], dtype=np.float64)

    def _rtt_ms(self, on_node: FloatArray, total: float) -> FloatArray:
        """Mean round trip to the siblings; those on the same node are at no distance."""
        if total == 0:
            return np.zeros(self.tape.node_slots)
        zone, rtt_ms = self.tape.node_zone, self.tape.zone_rtt_ms
        by_zone = np.bincount(zone, weights=on_node, minlength=self.tape.zone_slots)
        return ((rtt_ms @ by_zone)[zone] - on_node * rtt_ms[zone, zone]) / total


def every_gpu_free(tape: Tape) -> FloatArray:
    """Milli free on each device of each node, (nodes, GPUS_PER_NODE); 0 where a node has no such device."""
    return np.where(np.arange(GPUS_PER_NODE) < tape.node_gpus[:, None], float(GPU_MILLI), 0.0)
