"""The one feature schema: what a policy sees, in training and in the sidecar alike.

``encode`` turns a ClusterState and a Demand into two arrays: one row per node, and one for the pod and the
cluster as a whole. It works on the last axis, so one call serves one cluster or a batch of thousands.
Change a name, an order, a unit or a formula, and SCHEMA_VERSION must rise: a model of another version is
refused. docs/features.md is made from the tables below (agent.feature_docs), and a test keeps it equal.

A missing metric takes the mean of the candidates that have it and is flagged: it must not look idle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.cluster import GPU_MILLI, GPUS_PER_NODE, BoolArray, ClusterState, Demand, FloatArray
from agent.gpu import choose_gpus_per_node
from agent.heuristics.best_fit import LARGEST_CPU_MILLICORES
from agent.heuristics.fgd import mean_fragment_milli, openb_mix

SCHEMA_VERSION = 3

HOT_RATIO = 0.8  # above this a resource counts as nearly full
AGE_SCALE_S = 15.0  # a usual scrape interval
STALE_AFTER_S = 300.0  # older than this is missing
RATIO_LIMIT = 4.0  # no ratio needs to be larger to be understood
LATENCY_SCALE_MS = 50.0
RTT_SCALE_MS = 2.0
TRAFFIC_SCALE_MBPS = 100.0
SENT_OUTSIDE = 0.64  # of a service's traffic with the world outside, in the mean: it answers more than it is asked
CPU_BESIDE_GPU_MILLICORES = 8_000.0  # a usual request beside one GPU: with less left, the GPU is hard to sell
TYPICAL_PODS = openb_mix()  # whom free GPUs should serve; fixed, so that a feature means the same everywhere

NODE_FEATURES: dict[str, str] = {
    "cpu_requested_ratio": "CPU requested, this pod included, over allocatable",
    "memory_requested_ratio": "memory requested, this pod included, over allocatable",
    "pods_ratio": "pods, this one included, over the pod limit",
    "gpu_requested_ratio": "GPU share taken, this pod included, over all GPUs; 0 without GPUs",
    "gpu_leftover_ratio": "room left on the fullest GPU that fits a share of this pod; 0 without GPUs",
    "gpu_size": "GPUs over 8",
    "gpu_left": "GPU share left on the node with this pod there, over 8 GPUs",
    "gpu_whole_left": "untouched GPUs left on the node with this pod there, over 8",
    "gpu_breaks_whole": "1 if this pod asks for shares and would take one from an untouched GPU",
    "gpu_node_unused": "1 if the node has GPUs and all are untouched: choosing it for a GPU pod opens a node",
    "gpu_cpu_left": "CPU left on a node with GPUs with this pod there, over 128 cores",
    "gpu_without_cpu": "GPUs left with this pod there that lack 8 cores of CPU left for each, over 8",
    "gpu_fragment_growth": "GPUs that this pod makes useless to the mean pod of the openb mix (FGD's fragment)",
    "cpu_used_ratio": "CPU measured over allocatable",
    "memory_used_ratio": "memory measured over allocatable",
    "rx_ratio": "receive rate measured over NIC speed",
    "tx_ratio": "transmit rate measured over NIC speed",
    "cpu_expected_ratio": "CPU measured, corrected by who came and went, + this pod, over allocatable",
    "memory_expected_ratio": "memory measured, corrected by who came and went, + this pod, over allocatable",
    "rx_expected_ratio": "receive rate measured, corrected by who came and went, + this pod, over NIC speed",
    "tx_expected_ratio": "transmit rate measured, corrected by who came and went, + this pod, over NIC speed",
    "cpu_hot": "how far cpu_expected_ratio is above 0.8",
    "memory_hot": "how far memory_expected_ratio is above 0.8",
    "network_hot": "how far the larger of the expected NIC ratios is above 0.8",
    "worst_expected_ratio": "the largest of the four expected ratios",
    "cpu_std_ratio": "standard deviation of CPU in the window over allocatable",
    "pending_pods": "placements that the metrics do not show yet, over 10",
    "network_age": "age of the network metric: log2(1 + age / 15 s) / 4",
    "metric_missing": "1 if CPU, memory or network of this node is missing or older than 300 s",
    "nic_unknown": "1 if the NIC speed is unknown",
    "siblings_on_node_share": "share of the pod's siblings on this node",
    "siblings_in_zone_share": "share of the pod's siblings in this node's zone",
    "app_ratio": "expected rate of this pod and its siblings here, over NIC speed: they peak together",
    "remote_traffic": "sibling traffic x share of siblings on other nodes: log1p(Mbps / 100); 0 without siblings",
    "cross_zone_traffic": "sibling traffic x share of siblings in other zones: log1p(Mbps / 100); 0 without siblings",
    "sibling_rtt": "mean round trip to the siblings over 2 ms",
    "latency_excess": "how far user latency is above the soft limit, over 50 ms; 0 without a limit or unknown",
    "user_latency": "user latency over 50 ms; 0 if unknown",
    "empty": "1 if no pod runs here: choosing it switches a node on",
    "price": "price per hour over the dearest candidate's",
    "power_idle": "idle power over the hungriest candidate's peak",
    "power_slope": "peak minus idle power over the hungriest candidate's peak",
    "requests_imbalance": "absolute difference of cpu_requested_ratio and memory_requested_ratio",
    "size": "CPU allocatable over the largest candidate's",
}

POD_FEATURES: dict[str, str] = {
    "cpu_request": "CPU request over the candidates' mean allocatable",
    "memory_request": "memory request over the candidates' mean allocatable",
    "gpu_request": "GPUs asked for (fractions counted) over 8",
    "gpu_share": "share of each GPU asked for; 0 without GPUs",
    "expected_traffic": "expected receive + transmit rate: log1p(Mbps / 100)",
    "demand_known": "1 if the demand comes from an annotation or from siblings, 0.5 from a wider mean, 0 if none",
    "sibling_traffic": "declared traffic to siblings: log1p(Mbps / 100); 0 if not declared",
    "siblings": "running siblings: log1p(n) / 4",
    "latency_limited": "1 if the pod has a soft latency limit",
    "queue": "pods that wait: log1p(n) / 4",
    "candidates": "candidate nodes: log1p(n) / 8",
    "mean_cpu_expected": "mean of cpu_expected_ratio over the candidates",
    "mean_network_expected": "mean of the larger expected NIC ratio over the candidates",
    "mean_memory_requested": "mean of memory_requested_ratio over the candidates",
    "empty_share": "share of the candidates that are empty",
    "mean_gpu_requested": "mean of gpu_requested_ratio over the candidates",
}

GPU_FEATURES = tuple(name for name in NODE_FEATURES if name.startswith("gpu_"))
FeatureArray = NDArray[np.float32]
NODE_COLUMN = {name: column for column, name in enumerate(NODE_FEATURES)}
POD_COLUMN = {name: column for column, name in enumerate(POD_FEATURES)}
_GPU_INDICES = [NODE_COLUMN[name] for name in GPU_FEATURES]
_SIBLING_INDICES = [
    NODE_COLUMN[name]
    for name in (
        "siblings_on_node_share",
        "siblings_in_zone_share",
        "remote_traffic",
        "cross_zone_traffic",
        "sibling_rtt",
    )
]


@dataclass(frozen=True, slots=True)
class Encoding:
    """``nodes`` (..., nodes, len(NODE_FEATURES)) and ``pod`` (..., len(POD_FEATURES)), finite everywhere."""

    nodes: FeatureArray
    pod: FeatureArray


def encode(
    state: ClusterState,
    demand: Demand,
    candidates: BoolArray,
    nodes: FeatureArray | None = None,
    pod: FeatureArray | None = None,
) -> Encoding:
    """The features of every node; rows of nodes that are no candidates are zero. Writes into the arrays given."""
    shape = candidates.shape
    if nodes is None:
        nodes = np.empty((*shape, len(NODE_FEATURES)), dtype=np.float32)
    if pod is None:
        pod = np.empty((*shape[:-1], len(POD_FEATURES)), dtype=np.float32)
    # Feature by feature in one piece each, and turned at the end: scattered writes would cost more than the formulas.
    by_feature = np.empty((len(NODE_FEATURES), *shape), dtype=np.float32)
    with np.errstate(invalid="ignore", over="ignore"):  # nodes that are no candidates may hold anything
        columns = _Columns(state, demand, candidates, by_feature)
        columns.requests()
        columns.gpus()
        columns.use()
        columns.trust()
        columns.siblings()
        columns.latency()
        columns.spec()
        columns.pod(pod)
    nodes[...] = by_feature.transpose(*range(1, by_feature.ndim), 0)
    if not columns.all:
        nodes[~candidates] = 0.0
    return Encoding(nodes, pod)


class _Columns:
    """The formulas, grouped; values that several of them use are computed once."""

    def __init__(
        self,
        state: ClusterState,
        demand: Demand,
        candidates: BoolArray,
        by_feature: FeatureArray,  # (features, ..., nodes)
    ) -> None:
        self.state, self.demand, self.candidates, self.by_feature = state, demand, candidates, by_feature
        self.all = np.count_nonzero(candidates) == candidates.size  # a reduction under a mask costs twice as much
        self.offered = candidates.sum(axis=-1)
        self.count = np.maximum(self.offered, 1)
        self.per_cpu = _inverse(state.cpu_allocatable_millicores)
        self.per_memory = _inverse(state.memory_allocatable_mib)
        self.nic_known = np.isfinite(state.nic_mbps) & (state.nic_mbps > 0)
        self.per_nic = _inverse(self.imputed(state.nic_mbps, self.nic_known))

    def put(self, name: str, values: FloatArray) -> FloatArray:
        self.by_feature[NODE_COLUMN[name]] = values
        return values

    def means(self, *columns: FloatArray) -> FloatArray:
        """Mean of each column over the candidates, ``(columns, ...)``; 0 where there is none."""
        values = np.array(columns)
        total = np.add.reduce(values, axis=-1) if self.all else np.sum(values, axis=-1, where=self.candidates)
        return np.asarray(total / self.count)

    def mean(self, values: FloatArray, usable: BoolArray) -> FloatArray:
        """Mean over the candidates that are usable; 0 where there is none."""
        mask = self.candidates & usable
        return np.asarray(np.sum(values, axis=-1, where=mask) / np.maximum(mask.sum(axis=-1), 1))

    def most(self, values: FloatArray) -> FloatArray:
        """Largest value over the candidates, as a divisor."""
        if self.all:
            return np.maximum(np.maximum.reduce(values, axis=-1, keepdims=True), 1e-9)
        return np.asarray(np.max(values, axis=-1, where=self.candidates, initial=1e-9))[..., None]

    def imputed(self, values: FloatArray, known: BoolArray) -> FloatArray:
        """The candidates' mean where a value is not known."""
        if known.all():
            return values
        return np.where(known, values, self.mean(values, known)[..., None])

    def requests(self) -> None:
        state, demand = self.state, self.demand
        cpu = (state.cpu_requested_millicores + demand.cpu_request_millicores[..., None]) * self.per_cpu
        memory = (state.memory_requested_mib + demand.memory_request_mib[..., None]) * self.per_memory
        self.put("cpu_requested_ratio", cpu)
        self.memory_requested = self.put("memory_requested_ratio", memory)
        self.put("requests_imbalance", np.abs(cpu - memory))
        self.put("pods_ratio", (state.pods_running + 1.0) * _inverse(state.pods_allocatable))
        self.empty = self.put("empty", (state.pods_running <= 0).astype(np.float64))

    def gpus(self) -> None:
        state, demand = self.state, self.demand
        self.gpu_requested = np.zeros(self.candidates.shape)
        if not state.gpu_count.any():  # most clusters: skip the widest arrays
            self.by_feature[_GPU_INDICES] = 0.0
            return
        capacity = state.gpu_count * 1000.0
        there = capacity > 0
        asked = (demand.gpus * demand.gpu_milli)[..., None]
        taken = capacity - state.gpu_free_milli.sum(axis=-1)
        self.gpu_requested = np.where(there, (taken + asked) * _inverse(capacity), 0.0)
        self.put("gpu_requested_ratio", self.gpu_requested)
        share = demand.gpu_milli[..., None, None]
        room = np.where(state.gpu_free_milli >= share, state.gpu_free_milli - share, np.inf).min(axis=-1)
        wanted = (demand.gpus > 0)[..., None] & np.isfinite(room) & there
        self.put("gpu_leftover_ratio", np.where(wanted, room / 1000.0, 0.0))
        self.put("gpu_size", state.gpu_count / GPUS_PER_NODE)
        self._gpus_left(there)

    def _gpus_left(self, there: BoolArray) -> None:
        """What the node looks like with the pod there, on the devices that it would take."""
        state, demand = self.state, self.demand
        cpu_free = state.cpu_allocatable_millicores - state.cpu_requested_millicores
        cpu_left = np.where(there, cpu_free - demand.cpu_request_millicores[..., None], 0.0)
        share = demand.gpu_milli[..., None, None]
        chosen = choose_gpus_per_node(state.gpu_free_milli, demand.gpus, demand.gpu_milli)
        gpu_left = np.where(there[..., None], state.gpu_free_milli - chosen * share, 0.0)
        left, whole_left = gpu_left.sum(axis=-1), (gpu_left >= GPU_MILLI).sum(axis=-1)
        whole = np.where(there, (state.gpu_free_milli >= GPU_MILLI).sum(axis=-1), 0)
        self.put("gpu_left", left / (GPU_MILLI * GPUS_PER_NODE))
        self.put("gpu_whole_left", whole_left / GPUS_PER_NODE)
        breaks = (whole_left < whole) & (demand.gpu_milli < GPU_MILLI)[..., None]
        self.put("gpu_breaks_whole", breaks.astype(np.float64))
        self.put("gpu_node_unused", (there & (whole >= state.gpu_count)).astype(np.float64))
        self.put("gpu_cpu_left", cpu_left / LARGEST_CPU_MILLICORES)
        self.put("gpu_without_cpu", gpus_without_cpu(left, cpu_left) / GPUS_PER_NODE)
        before = mean_fragment_milli(TYPICAL_PODS, cpu_free, state.gpu_free_milli)
        after = mean_fragment_milli(TYPICAL_PODS, cpu_left, gpu_left)
        self.put("gpu_fragment_growth", np.where(there, (after - before) / GPU_MILLI, 0.0))

    def use(self) -> None:
        state, demand = self.state, self.demand
        self.cpu_fresh = _fresh(state.cpu_age_s, state.cpu_used_millicores)
        self.memory_fresh = _fresh(state.memory_age_s, state.memory_used_mib)
        self.network_fresh = _fresh(state.network_age_s, state.rx_mbps, state.tx_mbps)
        cpu = self.imputed(state.cpu_used_millicores * self.per_cpu, self.cpu_fresh)
        memory = self.imputed(state.memory_used_mib * self.per_memory, self.memory_fresh)
        rx = self.imputed(state.rx_mbps * self.per_nic, self.network_fresh)
        tx = self.imputed(state.tx_mbps * self.per_nic, self.network_fresh)
        self.put("cpu_used_ratio", limited(cpu))
        self.put("memory_used_ratio", limited(memory))
        self.put("rx_ratio", limited(rx))
        self.put("tx_ratio", limited(tx))
        cpu = after(cpu, state.pending_cpu_millicores, demand.expected_cpu_millicores[..., None], self.per_cpu)
        memory = after(memory, state.pending_memory_mib, demand.expected_memory_mib[..., None], self.per_memory)
        rx = after(rx, state.pending_rx_mbps, demand.expected_rx_mbps[..., None], self.per_nic)
        tx = after(tx, state.pending_tx_mbps, demand.expected_tx_mbps[..., None], self.per_nic)
        self.cpu_expected = self.put("cpu_expected_ratio", cpu)
        self.put("memory_expected_ratio", memory)
        self.put("rx_expected_ratio", rx)
        self.put("tx_expected_ratio", tx)
        self.network_expected = np.maximum(rx, tx)
        of_each = np.maximum(demand.expected_rx_mbps, demand.expected_tx_mbps)[..., None]
        self.put("app_ratio", limited((demand.siblings_on_node + 1.0) * of_each * self.per_nic))
        self.put("cpu_hot", hot(cpu))
        self.put("memory_hot", hot(memory))
        self.put("network_hot", hot(self.network_expected))
        self.put("worst_expected_ratio", np.maximum(np.maximum(cpu, memory), self.network_expected))
        spread = (
            np.where(_fresh(state.cpu_age_s, state.cpu_std_millicores), state.cpu_std_millicores, 0.0) * self.per_cpu
        )
        self.put("cpu_std_ratio", limited(spread))

    def trust(self) -> None:
        state = self.state
        missing = ~(self.cpu_fresh & self.memory_fresh & self.network_fresh)
        age_s = np.maximum(np.fmin(state.network_age_s, STALE_AFTER_S), 0.0)  # clocks differ: a sample may be of later
        self.put("network_age", np.log2(1.0 + age_s / AGE_SCALE_S) / 4.0)
        self.put("metric_missing", missing.astype(np.float64))
        self.put("nic_unknown", (~self.nic_known).astype(np.float64))
        self.put("pending_pods", state.pending_pods / 10.0)

    def siblings(self) -> None:
        demand = self.demand
        if not demand.siblings.any():  # the first pod of an app, and those of none
            self.by_feature[_SIBLING_INDICES] = 0.0
            return
        per_sibling = _inverse(demand.siblings)[..., None]
        on_node = self.put("siblings_on_node_share", demand.siblings_on_node * per_sibling)
        in_zone = self.put("siblings_in_zone_share", demand.siblings_in_zone * per_sibling)
        seen_mbps = among_siblings(demand.expected_rx_mbps, demand.expected_tx_mbps)
        sibling_mbps = np.where(np.isfinite(demand.sibling_mbps), demand.sibling_mbps, seen_mbps)
        talking = np.where(demand.siblings > 0, sibling_mbps, 0.0)[..., None]
        self.put("remote_traffic", traffic(talking * (1.0 - on_node)))
        self.put("cross_zone_traffic", traffic(talking * (1.0 - in_zone)))
        self.put("sibling_rtt", demand.sibling_rtt_ms / RTT_SCALE_MS)

    def latency(self) -> None:
        latency_ms = _known(self.state.user_latency_ms)
        soft_ms = np.where(np.isnan(self.demand.latency_soft_ms), np.inf, self.demand.latency_soft_ms)[..., None]
        self.put("latency_excess", np.maximum(latency_ms - soft_ms, 0.0) / LATENCY_SCALE_MS)
        self.put("user_latency", latency_ms / LATENCY_SCALE_MS)

    def spec(self) -> None:
        state = self.state
        price, idle, peak = map(_known, (state.price_usd_per_hour, state.power_idle_watts, state.power_peak_watts))
        most_power = self.most(peak)
        self.put("price", price / self.most(price))
        self.put("power_idle", idle / most_power)
        self.put("power_slope", (peak - idle) / most_power)
        self.put("size", state.cpu_allocatable_millicores / self.most(state.cpu_allocatable_millicores))

    def pod(self, out: FeatureArray) -> None:
        state, demand = self.state, self.demand
        means = self.means(
            state.cpu_allocatable_millicores,
            state.memory_allocatable_mib,
            self.cpu_expected,
            self.network_expected,
            self.memory_requested,
            self.empty,
            self.gpu_requested,
        )
        per_mean = _inverse(means[:2])
        values = {
            "cpu_request": demand.cpu_request_millicores * per_mean[0],
            "memory_request": demand.memory_request_mib * per_mean[1],
            "gpu_request": demand.gpus * demand.gpu_milli / 8000.0,
            "gpu_share": np.where(demand.gpus > 0, demand.gpu_milli / GPU_MILLI, 0.0),
            "expected_traffic": traffic(demand.expected_rx_mbps + demand.expected_tx_mbps),
            "demand_known": np.where(demand.demand_source <= 1, 1.0, np.where(demand.demand_source <= 3, 0.5, 0.0)),
            "sibling_traffic": traffic(np.where(np.isnan(demand.sibling_mbps), 0.0, demand.sibling_mbps)),
            "siblings": np.log1p(demand.siblings) / 4.0,
            "latency_limited": np.isfinite(demand.latency_soft_ms).astype(np.float64),
            "queue": np.log1p(demand.queue_length) / 4.0,
            "candidates": np.log1p(self.offered) / 8.0,
            "mean_cpu_expected": means[2],
            "mean_network_expected": means[3],
            "mean_memory_requested": means[4],
            "empty_share": means[5],
            "mean_gpu_requested": means[6],
        }
        for name, value in values.items():
            out[..., POD_COLUMN[name]] = value


def _fresh(age_s: FloatArray, *metrics: FloatArray) -> BoolArray:
    """Where a group of metrics can be used: young enough, and all of it there."""
    usable: BoolArray = age_s <= STALE_AFTER_S
    for values in metrics:
        usable = usable & np.isfinite(values)
    return usable


def _known(values: FloatArray) -> FloatArray:
    """Numbers everywhere, as ``nan_to_num`` makes them, which is slow where there is nothing to mend."""
    return values if np.isfinite(values).all() else np.nan_to_num(values)


def _inverse(values: FloatArray) -> FloatArray:
    """1 / values, and 0 where there is nothing to divide by."""
    something = values > 0
    if something.all():
        return np.divide(1.0, values)
    return np.divide(1.0, values, out=np.zeros_like(values, dtype=np.float64), where=something)


# Formulas on arrays; the batch environment compiles these same functions for single numbers.


def limited(ratio: FloatArray) -> FloatArray:
    """No ratio needs to be larger than the limit to be understood."""
    return np.minimum(ratio, RATIO_LIMIT)


def after(ratio: FloatArray, pending: FloatArray, expected: FloatArray, per_unit: FloatArray) -> FloatArray:
    """The ratio with this pod, and as it is by now: ``pending`` of who came and went is below 0 if more went."""
    return np.minimum(np.maximum(ratio + pending * per_unit, 0.0) + expected * per_unit, RATIO_LIMIT)


def hot(ratio: FloatArray) -> FloatArray:
    """How far a resource is into the range where contention begins."""
    return np.maximum(ratio - HOT_RATIO, 0.0)


def among_siblings(rx_mbps: FloatArray, tx_mbps: FloatArray) -> FloatArray:
    """What a pod sends to its siblings, from both directions of its traffic: only theirs goes as much in as out."""
    received_outside = np.maximum(tx_mbps - rx_mbps, 0.0) * ((1.0 - SENT_OUTSIDE) / (2.0 * SENT_OUTSIDE - 1.0))
    return np.maximum(np.minimum(rx_mbps, tx_mbps) - received_outside, 0.0)


def traffic(mbps: FloatArray) -> FloatArray:
    """Rates span four decades: a logarithm keeps the small ones apart."""
    return np.log1p(mbps / TRAFFIC_SCALE_MBPS)


def gpus_without_cpu(gpu_left_milli: FloatArray, cpu_left_millicores: FloatArray) -> FloatArray:
    """Free GPUs for which too little CPU is free."""
    return np.maximum(
        gpu_left_milli / GPU_MILLI - np.maximum(cpu_left_millicores, 0.0) / CPU_BESIDE_GPU_MILLICORES, 0.0
    )
