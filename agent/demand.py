"""What a pod will use, guessed before it runs (design.md, section 3).

Requests are what a pod reserves; scorers need what it will do to the node. The traffic comes from the best source
there is: what the pod declares, else what its siblings do, else its namespace, else the cluster. CPU and memory are
the request times the share of their requests that the same pods really use. The source is a feature: a guess
from the cluster's mean deserves less trust than a declaration.

Annotations are written by hand. One that cannot be read is ignored with a warning for the caller to publish; it
never keeps a pod from being scheduled (S1.16).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from agent.assumed import ExpectedUse
from agent.cluster import DEMAND_SOURCES, App, ClusterState, Demand, FloatArray, IntArray, Pod
from agent.errors import InputError
from agent.quantities import value
from agent.requests import NON_ZERO_CPU_MILLICORES, NON_ZERO_MEMORY_BYTES

NETWORK_MBPS = "pilotfish.io/network-mbps"  # each direction
SIBLING_MBPS = "pilotfish.io/sibling-mbps"
INGRESS_BANDWIDTH = "kubernetes.io/ingress-bandwidth"  # a quantity in bits per second
EGRESS_BANDWIDTH = "kubernetes.io/egress-bandwidth"
LATENCY_SOFT_MS = "latencySoftConstraint"
LATENCY_HARD_MS = "latencyHardConstraint"

BYTES_PER_MIB = 2**20
_MAX_NUMBER = 1e9  # Mbps or ms: anything above is a slip of the unit
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:[eE][+-]?[0-9]{1,2})?")


@dataclass(frozen=True, slots=True)
class Declared:
    """What the annotations of a pod say; None where they say nothing that can be read."""

    rx_mbps: float | None = None
    tx_mbps: float | None = None
    sibling_mbps: float | None = None
    latency_soft_ms: float | None = None
    latency_hard_ms: float | None = None


_KEYS = frozenset((NETWORK_MBPS, SIBLING_MBPS, INGRESS_BANDWIDTH, EGRESS_BANDWIDTH, LATENCY_SOFT_MS, LATENCY_HARD_MS))
_NOTHING = Declared()  # of most pods


@dataclass(frozen=True, slots=True)
class Use:
    """What pods really use: of one pod, or the mean of several. NaN where unknown."""

    rx_mbps: float = math.nan
    tx_mbps: float = math.nan
    cpu_ratio: float = math.nan  # of the request
    memory_ratio: float = math.nan


@dataclass(frozen=True, slots=True)
class ObservedDemand:
    """Mean use by app (namespace and owner), by namespace, and of the whole cluster."""

    by_app: Mapping[App, Use] = field(default_factory=dict)
    by_namespace: Mapping[str, Use] = field(default_factory=dict)
    cluster: Use = Use()

    @classmethod
    def of(cls, pods: Sequence[Pod], uses: Sequence[Use]) -> ObservedDemand:
        """The means of what running pods were seen to use."""
        apps: dict[App, list[Use]] = {}
        namespaces: dict[str, list[Use]] = {}
        for pod, use in zip(pods, uses, strict=True):
            namespaces.setdefault(pod.namespace, []).append(use)
            if pod.app_key is not None:
                apps.setdefault(pod.app_key, []).append(use)
        return cls(
            {app: mean_use(group) for app, group in apps.items()},
            {namespace: mean_use(group) for namespace, group in namespaces.items()},
            mean_use(uses),
        )


@dataclass(frozen=True, slots=True)
class Expected:
    """The guess for one pod, and where its traffic comes from (an index into DEMAND_SOURCES)."""

    cpu_millicores: float
    memory_mib: float
    rx_mbps: float
    tx_mbps: float
    source: int
    sibling_mbps: float  # NaN: not declared


def mean_use(uses: Iterable[Use]) -> Use:
    """Mean of each figure over those who know it."""
    table = np.array([(use.rx_mbps, use.tx_mbps, use.cpu_ratio, use.memory_ratio) for use in uses]).reshape(-1, 4)
    known = np.isfinite(table)
    count = known.sum(axis=0)
    sums = np.where(known, table, 0.0).sum(axis=0)
    return Use(*np.where(count > 0, sums / np.maximum(count, 1), np.nan).tolist())


def read_annotations(annotations: Mapping[str, str]) -> tuple[Declared, list[str]]:
    """What is declared, and a warning for each annotation that cannot be read."""
    if _KEYS.isdisjoint(annotations):
        return _NOTHING, []
    warnings: list[str] = []

    def read(key: str, parse: Callable[[str], float]) -> float | None:
        text = annotations.get(key)
        try:
            return None if text is None else parse(str(text))
        except InputError as why:
            warnings.append(f"annotation {key} is ignored: {why}")
            return None

    network = read(NETWORK_MBPS, _not_negative)
    ingress, egress = read(INGRESS_BANDWIDTH, _bandwidth_mbps), read(EGRESS_BANDWIDTH, _bandwidth_mbps)
    declared = Declared(
        rx_mbps=ingress if network is None else network,
        tx_mbps=egress if network is None else network,
        sibling_mbps=read(SIBLING_MBPS, _not_negative),
        latency_soft_ms=read(LATENCY_SOFT_MS, _positive),
        latency_hard_ms=read(LATENCY_HARD_MS, _positive),
    )
    return declared, warnings


def expected_demand(pod: Pod, observed: ObservedDemand) -> Expected:
    """The best guess there is; without any source the pod is taken to use its requests and no network."""
    declared, _ = read_annotations(pod.annotations)
    uses = _uses_best_first(pod, declared, observed)
    cpu = pod.cpu_request_millicores * _first(*(use.cpu_ratio for use in uses), 1.0)
    memory_bytes = pod.memory_request_bytes * _first(*(use.memory_ratio for use in uses), 1.0)
    return Expected(
        # a share of no request says nothing: kube-scheduler's own guess for such pods
        cpu_millicores=cpu if pod.cpu_request_millicores else float(NON_ZERO_CPU_MILLICORES),
        memory_mib=(memory_bytes if pod.memory_request_bytes else NON_ZERO_MEMORY_BYTES) / BYTES_PER_MIB,
        rx_mbps=_first(*(use.rx_mbps for use in uses), 0.0),
        tx_mbps=_first(*(use.tx_mbps for use in uses), 0.0),
        source=_traffic_source(uses),
        sibling_mbps=_first(declared.sibling_mbps, math.nan),
    )


def observed_use(pod: Pod, observed: ObservedDemand) -> ExpectedUse:
    """What a pod like this was seen to use; nothing where nobody was seen."""
    uses = _uses_best_first(pod, _NOTHING, observed)
    return ExpectedUse(
        pod.cpu_request_millicores * _first(*(use.cpu_ratio for use in uses), 0.0),
        pod.memory_request_bytes / BYTES_PER_MIB * _first(*(use.memory_ratio for use in uses), 0.0),
        _first(*(use.rx_mbps for use in uses), 0.0),
        _first(*(use.tx_mbps for use in uses), 0.0),
    )


def demand_of(
    pod: Pod, observed: ObservedDemand, state: ClusterState, siblings_on_node: FloatArray, queue_length: int
) -> Demand:
    """The pod as scorers read it, over the nodes of ``state``. ``siblings_on_node``: running pods of its app."""
    expected = expected_demand(pod, observed)
    zones = state.zone_rtt_ms.shape[-1]
    return Demand(
        cpu_request_millicores=np.asarray(float(pod.cpu_request_millicores)),
        memory_request_mib=np.asarray(pod.memory_request_bytes / BYTES_PER_MIB),
        gpus=np.asarray(float(pod.gpus)),
        gpu_milli=np.asarray(float(pod.gpu_milli)),
        expected_cpu_millicores=np.asarray(expected.cpu_millicores),
        expected_memory_mib=np.asarray(expected.memory_mib),
        expected_rx_mbps=np.asarray(expected.rx_mbps),
        expected_tx_mbps=np.asarray(expected.tx_mbps),
        demand_source=np.asarray(expected.source),
        sibling_mbps=np.asarray(expected.sibling_mbps),
        latency_soft_ms=np.asarray(_first(pod.latency_soft_ms, math.nan)),
        latency_hard_ms=np.asarray(_first(pod.latency_hard_ms, math.nan)),
        siblings=np.asarray(siblings_on_node.sum(axis=-1)),
        siblings_on_node=siblings_on_node,
        siblings_in_zone=siblings_in_zone(siblings_on_node, state.zone, zones),
        sibling_rtt_ms=mean_sibling_rtt(siblings_on_node, state.zone, state.zone_rtt_ms),
        queue_length=np.asarray(float(queue_length)),
    )


def siblings_in_zone(siblings_on_node: FloatArray, zone: IntArray, zones: int) -> FloatArray:
    """For each node the siblings in its zone, its own included: ``(..., nodes)``."""
    return _at_node(_by_zone(siblings_on_node, zone, zones), zone)


def mean_sibling_rtt(siblings_on_node: FloatArray, zone: IntArray, zone_rtt_ms: FloatArray) -> FloatArray:
    """Mean round trip from each node to all siblings, ``(..., nodes)``: 0 to those on the node, 0 without any.

    An unknown distance between zones (NaN) counts as the longest known one: never as the best.
    """
    if not siblings_on_node.any():
        return np.zeros(np.broadcast_shapes(siblings_on_node.shape, zone.shape))
    unknown = np.isnan(zone_rtt_ms)
    if unknown.any():
        longest_ms = np.fmax.reduce(zone_rtt_ms, axis=(-2, -1), keepdims=True, initial=0.0)
        zone_rtt_ms = np.where(unknown, longest_ms, zone_rtt_ms)
    by_zone = _by_zone(siblings_on_node, zone, zone_rtt_ms.shape[-1])
    from_zone_ms = np.matmul(zone_rtt_ms, by_zone[..., None])[..., 0]  # (..., zones): the sum over all siblings
    within_zone_ms = np.diagonal(zone_rtt_ms, axis1=-2, axis2=-1)
    if within_zone_ms.shape != by_zone.shape:
        within_zone_ms = np.broadcast_to(within_zone_ms, by_zone.shape)
    total_ms = _at_node(from_zone_ms, zone) - siblings_on_node * _at_node(within_zone_ms, zone)
    mean_ms: FloatArray = total_ms / np.maximum(siblings_on_node.sum(axis=-1, keepdims=True), 1.0)
    return mean_ms


def _by_zone(siblings_on_node: FloatArray, zone: IntArray, zones: int) -> FloatArray:
    """Siblings in each zone: ``(..., nodes)`` to ``(..., zones)``."""
    if siblings_on_node.ndim == zone.ndim == 1:
        return np.bincount(zone, siblings_on_node, zones).astype(np.float64)
    batch = siblings_on_node.shape[:-1]
    clusters = math.prod(batch)
    first_slot = np.arange(clusters)[:, None] * zones  # each cluster counts in slots of its own
    slots = first_slot + np.broadcast_to(zone, siblings_on_node.shape).reshape(clusters, -1)
    counts: FloatArray = np.bincount(slots.ravel(), siblings_on_node.ravel(), clusters * zones).astype(np.float64)
    return counts.reshape(*batch, zones)


def _at_node(by_zone: FloatArray, zone: IntArray) -> FloatArray:
    """What belongs to a node's zone, for each node."""
    if by_zone.ndim == zone.ndim == 1:  # one cluster: the general form below costs several times more
        return by_zone[zone]
    return np.take_along_axis(by_zone, np.broadcast_to(zone, (*by_zone.shape[:-1], zone.shape[-1])), axis=-1)


def _uses_best_first(pod: Pod, declared: Declared, observed: ObservedDemand) -> tuple[Use, ...]:
    """In the order of DEMAND_SOURCES; a pod of no known app has no siblings."""
    return (
        Use(_first(declared.rx_mbps, math.nan), _first(declared.tx_mbps, math.nan)),
        Use() if pod.app_key is None else observed.by_app.get(pod.app_key, Use()),
        observed.by_namespace.get(pod.namespace, Use()),
        observed.cluster,
    )


def _traffic_source(uses: tuple[Use, ...]) -> int:
    """The best source that knows a direction of the traffic."""
    for source, use in enumerate(uses):
        if not (math.isnan(use.rx_mbps) and math.isnan(use.tx_mbps)):
            return source
    return DEMAND_SOURCES.index("none")


def _first(*candidates: float | None) -> float:
    """The first that is known; NaN if none is."""
    return next((known for known in candidates if known is not None and not math.isnan(known)), math.nan)


def _bandwidth_mbps(text: str) -> float:
    mbps = value(text) / 1e6
    if not 0 < mbps <= _MAX_NUMBER:
        raise InputError(f"{text[:40]!r} is out of range: give bits per second, such as 10M")
    return mbps


def _not_negative(text: str) -> float:
    number = _number(text)
    if not 0 <= number <= _MAX_NUMBER:
        raise InputError(f"{text[:40]!r} is out of range: give 0 to {_MAX_NUMBER:.0f}")
    return number


def _positive(text: str) -> float:
    number = _number(text)
    if not 0 < number <= _MAX_NUMBER:  # a limit of 0 ms would rule out every node
        raise InputError(f"{text[:40]!r} is out of range: give milliseconds above 0")
    return number


def _number(text: str) -> float:
    if not _NUMBER.fullmatch(text.strip()):
        raise InputError(f"{text[:40]!r} is not a plain number, such as 35 or 0.5")
    return float(text)
