"""Which nodes can take a pod, and for every other node all the reasons why not (S1.17, S3.4 to S3.6, S4.7).

The rules and their names are kube-scheduler's, so that an operator recognises them; ours are the maintenance
label, the latency constraint and the usage thresholds. The text before ": " is the same for every node and can be
counted; the figures follow it. ``unresolvable`` are nodes that evicting pods would not help.

The numeric rules are plain comparisons (``fits``, ``gpu_fits``): the simulators use the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.cluster import GPU_MILLI, BoolArray, ClusterState, FloatArray, IntArray, Node, Pod, Taint
from agent.nodetable import NodeTable, tolerates

BYTES_PER_MIB = 2**20
NOT_READY = Taint("node.kubernetes.io/not-ready", "NoSchedule")
UNDER_MAINTENANCE = "node(s) were under maintenance"
UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "NoSchedule")


@dataclass(frozen=True, slots=True)
class Feasibility:
    """The answer for one pod: ``mask`` in the order of the nodes, reasons only for the rejected ones.

    Who asks about many pods seldom reads the reasons, so they are put into words when somebody does.
    """

    mask: BoolArray  # (nodes,)
    names: tuple[str, ...]  # of the nodes
    checks: tuple[_Check, ...]  # those that reject a node

    @property
    def reasons(self) -> dict[str, list[str]]:
        reasons: dict[str, list[str]] = {}
        for check in self.checks:
            (places,) = check.rejected.nonzero()
            for place, reason in zip(places.tolist(), check.reasons(places), strict=True):
                reasons.setdefault(self.names[place], []).append(reason)
        return reasons

    @property
    def unresolvable(self) -> frozenset[str]:
        at = [np.flatnonzero(check.unresolvable & check.rejected) for check in self.checks]
        return frozenset(self.names[place] for places in at for place in places.tolist())


@dataclass(frozen=True, slots=True)
class UsageThresholds:
    """A node above either percentage takes no more pods; exactly at it, it does."""

    cpu_percent: float = 80.0
    memory_percent: float = 80.0
    stale_after_s: float = 90.0  # older measurements give way to requests


@dataclass(frozen=True, slots=True)
class Usage:
    """Percent of allocatable, ``(..., nodes)``, and whether it was measured or taken from requests."""

    percent: FloatArray
    measured: BoolArray


@dataclass(frozen=True, slots=True)
class _Check:
    """One rule: whom it rejects, what it says of those nodes, and where no eviction would help."""

    rejected: BoolArray
    reasons: Callable[[IntArray], Iterable[str]]  # of the nodes at these places, in their order
    unresolvable: BoolArray


def feasibility(
    nodes: Sequence[Node], state: ClusterState, pod: Pod, thresholds: UsageThresholds | None = None
) -> Feasibility:
    """Every rule over every node of one cluster. Pass a ``NodeTable`` to keep what was learned of the nodes."""
    table = NodeTable.of(nodes)
    if len(table) != state.node_count:
        raise ValueError(f"{len(table)} nodes do not belong to a state of {state.node_count}")
    return _judged(table, _checks(table, state, pod, thresholds))


def own_feasibility(
    nodes: Sequence[Node], state: ClusterState, pod: Pod, thresholds: UsageThresholds | None = None
) -> Feasibility:
    """Only the rules that kube-scheduler lacks.

    For nodes that it has passed already, from newer knowledge than ours: a watch that is late must reject none of them.
    """
    table = NodeTable.of(nodes)
    return _judged(table, _own_checks(table, state, pod, thresholds))


def _judged(table: NodeTable, rules: Iterator[_Check]) -> Feasibility:
    checks = tuple(check for check in rules if check.rejected.any())
    mask = np.ones(len(table), dtype=np.bool_)
    for check in checks:
        mask &= ~check.rejected
    return Feasibility(mask, table.names, checks)


def fits(
    cpu_free: FloatArray,
    memory_free: FloatArray,
    pods_free: FloatArray,
    cpu_request: FloatArray | float,
    memory_request: FloatArray | float,
) -> BoolArray:
    """Whether CPU, memory and pod count allow the pod; what is not requested is not checked.

    Only comparisons, ``&`` and ``|``: it takes arrays of any shape, and scalars inside ``numba.njit(fits)``.
    """
    return (
        ((cpu_request <= cpu_free) | (cpu_request <= 0))
        & ((memory_request <= memory_free) | (memory_request <= 0))
        & (pods_free >= 1)
    )


def gpu_fits(gpu_free_milli: FloatArray, gpus: FloatArray | float, gpu_milli: FloatArray | float) -> BoolArray:
    """Whether enough GPUs of each node have room: ``(..., nodes, slots)`` to ``(..., nodes)``.

    ``gpus`` and ``gpu_milli`` broadcast against ``(..., nodes)``.
    """
    roomy = gpu_free_milli >= np.asarray(gpu_milli)[..., None]
    enough: BoolArray = roomy.sum(axis=-1) >= gpus
    return enough


def cpu_usage(state: ClusterState, stale_after_s: float) -> Usage:
    """CPU of each node: measured use where it is known and fresh, requests elsewhere (S3.5)."""
    measured = ~np.isnan(state.cpu_used_millicores) & (state.cpu_age_s <= stale_after_s)
    used = np.where(measured, state.cpu_used_millicores, state.cpu_requested_millicores)
    return Usage(_percent(used, state.cpu_allocatable_millicores), measured)


def memory_usage(state: ClusterState, stale_after_s: float) -> Usage:
    """Memory of each node, by the same rule."""
    measured = ~np.isnan(state.memory_used_mib) & (state.memory_age_s <= stale_after_s)
    used = np.where(measured, state.memory_used_mib, state.memory_requested_mib)
    return Usage(_percent(used, state.memory_allocatable_mib), measured)


def _percent(used: FloatArray, allocatable: FloatArray) -> FloatArray:
    # one division, and last: exactly 80 % of whole numbers must come out as exactly 80
    with np.errstate(divide="ignore", invalid="ignore"):
        percent: FloatArray = used * 100.0 / allocatable
    return percent


def _checks(table: NodeTable, state: ClusterState, pod: Pod, thresholds: UsageThresholds | None) -> Iterator[_Check]:
    yield from _condition_checks(table, state, pod)
    yield from _taint_checks(table, pod)
    yield from _affinity_checks(table, pod)
    yield from _resource_checks(state, pod)
    yield from _limit_checks(state, pod, thresholds)


def _own_checks(
    table: NodeTable, state: ClusterState, pod: Pod, thresholds: UsageThresholds | None
) -> Iterator[_Check]:
    if not table.all_usable:
        yield _always(table.maintenance, UNDER_MAINTENANCE)
    yield from _limit_checks(state, pod, thresholds)


def _limit_checks(state: ClusterState, pod: Pod, thresholds: UsageThresholds | None) -> Iterator[_Check]:
    if pod.latency_hard_ms is not None:
        yield _latency_check(state.user_latency_ms, pod.latency_hard_ms)
    if thresholds is not None:
        yield _threshold_check(state, thresholds)


def _condition_checks(table: NodeTable, state: ClusterState, pod: Pod) -> Iterator[_Check]:
    if table.all_usable and state.schedulable.all():
        return
    explained = table.not_ready | table.unschedulable | table.maintenance
    if not tolerates(pod.tolerations, NOT_READY):
        yield _always(table.not_ready, "node(s) were not ready")
    if not tolerates(pod.tolerations, UNSCHEDULABLE):
        yield _always(table.unschedulable, "node(s) were unschedulable")
    yield _always(table.maintenance, UNDER_MAINTENANCE)
    yield _always(~state.schedulable & ~explained, "node(s) were not schedulable")


def _taint_checks(table: NodeTable, pod: Pod) -> Iterator[_Check]:
    refused = [[taint for taint in taints if not tolerates(pod.tolerations, taint)] for taints in table.taint_sets]
    if any(refused):
        texts = [f"node(s) had untolerated taint(s): {', '.join(map(_taint_text, taints))}" for taints in refused]
        rejected = np.array([bool(taints) for taints in refused])[table.taint_codes]
        codes = table.taint_codes
        yield _Check(rejected, lambda places: [texts[code] for code in codes[places].tolist()], rejected)


def _affinity_checks(table: NodeTable, pod: Pod) -> Iterator[_Check]:
    mismatch = "node(s) didn't match Pod's node affinity/selector"
    for key, value in pod.node_selector.items():
        yield _always(~table.labelled(key, value), f"{mismatch}: selector {key}={value}")
    if pod.required_affinity:
        yield _always(~table.matching_any(pod.required_affinity), f"{mismatch}: no required term matches")


def _resource_checks(state: ClusterState, pod: Pod) -> Iterator[_Check]:
    yield _pod_count_check(state.pods_running, state.pods_allocatable)
    yield _shortage(
        "cpu", "m", pod.cpu_request_millicores, state.cpu_allocatable_millicores, state.cpu_requested_millicores
    )
    memory_mib = pod.memory_request_bytes / BYTES_PER_MIB  # exact: a power of two
    yield _shortage("memory", "Mi", memory_mib, state.memory_allocatable_mib, state.memory_requested_mib)
    if pod.gpus > 0:
        yield _gpu_check(state, pod)


def _pod_count_check(running: FloatArray, allocatable: FloatArray) -> _Check:
    def reasons(places: IntArray) -> Iterator[str]:
        for count, limit in _rows(places, running, allocatable):
            yield f"Too many pods: {count:g} of {limit:g}"

    return _Check(~(allocatable - running >= 1), reasons, allocatable < 1)


def _shortage(resource: str, unit: str, request: float, allocatable: FloatArray, requested: FloatArray) -> _Check:
    free = allocatable - requested

    def reasons(places: IntArray) -> Iterator[str]:
        text = f"Insufficient {resource}: requested {request:.10g}{unit}, free"
        for left, limit in _rows(places, free, allocatable):
            yield f"{text} {left:.10g}{unit} of {limit:.10g}{unit}"

    return _Check(~((request <= free) | (request <= 0)), reasons, request > allocatable)


def _gpu_check(state: ClusterState, pod: Pod) -> _Check:
    def reasons(places: IntArray) -> Iterator[str]:
        share = "" if pod.gpu_milli == GPU_MILLI else f" x {pod.gpu_milli}m"
        roomy = (state.gpu_free_milli >= pod.gpu_milli).sum(axis=-1)
        for left, limit in _rows(places, roomy, state.gpu_count):
            yield f"Insufficient gpu: requested {pod.gpus}{share}, free {left:g} of {limit:g}"

    short = ~gpu_fits(state.gpu_free_milli, pod.gpus, pod.gpu_milli)
    return _Check(short, reasons, pod.gpus > state.gpu_count)


def _latency_check(latency_ms: FloatArray, limit_ms: float) -> _Check:
    def reasons(places: IntArray) -> Iterator[str]:
        for (latency,) in _rows(places, latency_ms):
            yield f"node(s) exceeded the pod's latencyHardConstraint: {latency:.10g} ms, at most {limit_ms:.10g} ms"

    above = latency_ms > limit_ms  # an unknown latency is no reason: NaN compares false
    return _Check(above, reasons, above)


def _threshold_check(state: ClusterState, limits: UsageThresholds) -> _Check:
    cpu, memory = cpu_usage(state, limits.stale_after_s), memory_usage(state, limits.stale_after_s)

    def reasons(places: IntArray) -> Iterator[str]:
        cpu_texts = _usage_texts("cpu", cpu, limits.cpu_percent, places)
        memory_texts = _usage_texts("memory", memory, limits.memory_percent, places)
        for cpu_text, memory_text in zip(cpu_texts, memory_texts, strict=True):
            yield f"node(s) were above the usage threshold: {cpu_text}, {memory_text}"

    over = (cpu.percent > limits.cpu_percent) | (memory.percent > limits.memory_percent)
    return _Check(over, reasons, np.zeros_like(over))


def _usage_texts(resource: str, used: Usage, limit_percent: float, places: IntArray) -> Iterator[str]:
    for percent, measured in _rows(places, used.percent, used.measured):
        origin = "measured" if measured else "from requests"
        yield f"{resource} {percent:.2f} % ({origin}, limit {limit_percent:g} %)"


def _always(rejected: BoolArray, text: str) -> _Check:
    """A rule that says the same of every node, and that no eviction can satisfy."""
    return _Check(rejected, lambda places: [text] * len(places), rejected)


def _taint_text(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _rows(places: IntArray, *columns: NDArray[Any]) -> Iterator[tuple[Any, ...]]:
    """The values at these places; plain numbers, which format several times faster than numpy's."""
    return zip(*(column[places].tolist() for column in columns), strict=True)
