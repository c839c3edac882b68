"""The arrays of many clusters at once: what ``envs.dynamics.world`` keeps in objects, with a leading cluster axis.

``Live`` changes with every step; ``Tapes`` (a stack of tapes) never does. Columns of one kind share one array, so that
all of a cluster lies together in memory and the compiled kernels take few arguments: ``L.node[c, NODE.pods, n]``.
A cluster reads row ``tape`` of the stack, so a group of clusters can share one tape.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.cluster import GPUS_PER_NODE
from envs.dynamics.costs import TERMS
from envs.dynamics.knowledge import OBSERVED
from envs.dynamics.world import QUEUE_LIMIT
from envs.workloads.tape import RING, Tape

UNKNOWN = 0  # loads_of: pods have come or gone since the loads were summed up; else 1 + the step of the tape
LEFT_AT_LEAST = 256  # pods that have left and are remembered, if there is no room for more to run
UNSEEN_LIMIT = 80  # bindings that the watch has yet to show; a scenario allows 64 decisions


def rows(name: str, columns: str) -> Any:
    """The place of each column in its array, by name; numba reads it as constants."""
    kind = namedtuple(name, columns.split())  # type: ignore[misc]
    return kind(*range(len(kind._fields)))


# --- what changes

COUNT = rows(
    "COUNT",
    "tape nodes ticks decisions done arrived offered invalid running left waiting unseen scraped published loads_of",
)
NODE = rows(
    "NODE",
    # the truth
    "cpu_allocated memory_allocated pods load_cpu load_memory load_rx load_tx cpu_counter rx_counter tx_counter"
    # what is known: the watch, the metrics, placements that they do not show yet
    " known_cpu_requested known_memory_requested known_pods"
    " sampled_at_s age_s known_cpu known_cpu_std known_memory known_rx known_tx known_connections"
    " pending_cpu pending_memory pending_rx pending_tx pending_pods"
    # of the pod that waits
    " siblings siblings_in_zone sibling_rtt_ms",
)
POD_STATE = rows("POD_STATE", "node known_node devices known_devices kills")
RUN = rows("RUN", "cpu memory rx tx")  # of a running pod, at load 1: every tick reads these
RUN_MORE = rows("RUN_MORE", "soft_ms hard_ms bound_at_s expected_cpu expected_memory expected_rx expected_tx")
RUN_AT = rows("RUN_AT", "node app")
LEFT = rows("LEFT", "pod node")  # of a pod that has gone, whose use the metrics may still show
LEFT_S = rows("LEFT_S", "bound_at left_at")
UNSEEN = rows("UNSEEN", "pod until")
RINGS = rows("RINGS", "cpu rx tx memory connections")
DEMAND = rows(
    "DEMAND",
    "cpu memory gpus gpu_milli expected_cpu expected_memory expected_rx expected_tx source sibling_mbps soft_ms hard_ms"
    " siblings queue",
)
FIRST_NODE_VALUES = {
    NODE.sampled_at_s: -np.inf,
    NODE.age_s: np.inf,
    **dict.fromkeys(range(NODE.known_cpu, NODE.known_connections + 1), np.nan),
}


class Live(NamedTuple):
    count: NDArray[np.int32]  # type: ignore[assignment]  # (clusters, COUNT); hides tuple.count, which nobody needs
    clock_s: NDArray[np.float64]  # (clusters,)
    terms: NDArray[np.float64]  # (clusters, terms)
    mask: NDArray[np.bool_]  # (clusters, nodes)
    schedulable: NDArray[np.bool_]  # (clusters, nodes)
    node: NDArray[np.float64]  # (clusters, NODE, nodes)
    gpu_free_milli: NDArray[np.float64]  # (clusters, nodes, GPUs)
    known_gpu_free_milli: NDArray[np.float64]  # (clusters, nodes, GPUs)
    app_pods: NDArray[np.int16]  # (clusters, apps, nodes)
    known_app_pods: NDArray[np.int16]  # (clusters, apps, nodes)
    app_zone_pods: NDArray[np.int16]  # (clusters, apps, zones + 1); the last is the sum
    running: NDArray[np.int16]  # (clusters, slots), in order of binding
    run: NDArray[np.float64]  # (clusters, slots, RUN), in the same order
    run_more: NDArray[np.float32]  # (clusters, slots, RUN_MORE)
    run_at: NDArray[np.int16]  # (clusters, slots, RUN_AT)
    run_ends_at_s: NDArray[np.float64]  # (clusters, slots)
    left: NDArray[np.int16]  # (clusters, as many or LEFT_AT_LEAST, LEFT), in order of leaving
    left_s: NDArray[np.float32]  # (clusters, as many, LEFT_S), in the same order
    pod_state: NDArray[np.int16]  # (clusters, pods, POD_STATE)
    pod_left_s: NDArray[np.float64]  # (clusters, pods): what a waiting pod still has to run
    pod_credit: NDArray[np.float32]  # (clusters, pods, nodes): what each pod costs on each (batch_credit), or no room
    waiting: NDArray[np.int16]  # (clusters, queue)
    waiting_since_s: NDArray[np.float64]  # (clusters, queue); in the future: until then the pod stays away
    unseen: NDArray[np.int32]  # (clusters, UNSEEN, limit)
    ring: NDArray[np.float64]  # (clusters, RINGS, scrapes, nodes)
    ring_present: NDArray[np.bool_]  # (clusters, scrapes, nodes)
    ring_at_s: NDArray[np.float64]  # (clusters, scrapes)
    ring_apps: NDArray[np.float32]  # (clusters, scrapes, apps + 1, OBSERVED); the last row is the cluster
    observed: NDArray[np.float64]  # (clusters, apps + 1, OBSERVED)
    demand: NDArray[np.float64]  # (clusters, DEMAND)
    # room to reckon in: the kernels allocate nothing
    used: NDArray[np.float64]  # (clusters, apps + 1, OBSERVED)
    base: NDArray[np.float64]  # (clusters, apps + 1, OBSERVED)
    by_zone: NDArray[np.float64]  # (clusters, zones)
    app_flow: NDArray[np.float64]  # (clusters, apps)
    between: NDArray[np.float64]  # (clusters, 2): Mbps between zones and latency violations, summed with the loads


def allocate(clusters: int, tapes: Tapes, credits: bool = False) -> Live:
    """Arrays for so many clusters on tapes of this size."""
    nodes, pods, apps, zones = tapes.node.shape[2], tapes.pod.shape[1], tapes.app.shape[2], tapes.zone_rtt_ms.shape[1]
    slots = most_running(tapes)
    live = Live(
        count=np.empty((clusters, len(COUNT)), np.int32),
        clock_s=np.empty(clusters),
        terms=np.empty((clusters, len(TERMS))),
        mask=np.empty((clusters, nodes), np.bool_),
        schedulable=np.empty((clusters, nodes), np.bool_),
        node=np.empty((clusters, len(NODE), nodes)),
        gpu_free_milli=np.empty((clusters, nodes, GPUS_PER_NODE)),
        known_gpu_free_milli=np.empty((clusters, nodes, GPUS_PER_NODE)),
        app_pods=np.empty((clusters, apps, nodes), np.int16),
        known_app_pods=np.empty((clusters, apps, nodes), np.int16),
        app_zone_pods=np.empty((clusters, apps, zones + 1), np.int16),
        running=np.empty((clusters, slots), np.int16),
        run=np.empty((clusters, slots, len(RUN))),
        run_more=np.empty((clusters, slots, len(RUN_MORE)), np.float32),
        run_at=np.empty((clusters, slots, len(RUN_AT)), np.int16),
        run_ends_at_s=np.empty((clusters, slots)),
        left=np.empty((clusters, max(slots, LEFT_AT_LEAST), len(LEFT)), np.int16),
        left_s=np.empty((clusters, max(slots, LEFT_AT_LEAST), len(LEFT_S)), np.float32),
        pod_state=np.empty((clusters, pods, len(POD_STATE)), np.int16),
        pod_left_s=np.empty((clusters, pods)),
        pod_credit=np.empty((clusters, pods if credits else 0, nodes), np.float32),
        waiting=np.empty((clusters, QUEUE_LIMIT), np.int16),
        waiting_since_s=np.empty((clusters, QUEUE_LIMIT)),
        unseen=np.empty((clusters, len(UNSEEN), UNSEEN_LIMIT), np.int32),
        ring=np.empty((clusters, len(RINGS), RING, nodes)),
        ring_present=np.empty((clusters, RING, nodes), np.bool_),
        ring_at_s=np.empty((clusters, RING)),
        ring_apps=np.empty((clusters, RING, apps + 1, OBSERVED), np.float32),
        observed=np.empty((clusters, apps + 1, OBSERVED)),
        demand=np.empty((clusters, len(DEMAND))),
        used=np.empty((clusters, apps + 1, OBSERVED)),
        base=np.empty((clusters, apps + 1, OBSERVED)),
        by_zone=np.empty((clusters, zones)),
        app_flow=np.empty((clusters, apps)),
        between=np.empty((clusters, 2)),
    )
    clear(live, np.arange(clusters))
    return live


def most_running(tapes: Tapes) -> int:
    """How many pods can run at once: the smallest ones, until CPU or memory of the whole cluster is used up."""
    exists = np.isfinite(tapes.pod[:, :, TAPE_POD.arrival_s])
    bounds = []
    for request, capacity in (
        (TAPE_POD.cpu_request_millicores, TAPE_NODE.cpu_millicores),
        (TAPE_POD.memory_request_mib, TAPE_NODE.memory_mib),
    ):
        requests = np.sort(np.where(exists, tapes.pod[:, :, request], np.inf), axis=1)
        within = np.cumsum(requests, axis=1, dtype=np.float64) <= tapes.node[:, capacity].sum(axis=1, keepdims=True)
        bounds.append(within.sum(axis=1))
    return int(np.minimum(*bounds).max(initial=0)) + 1


def grown(live: Live, slots: int) -> Live:
    """The same clusters with room for more running pods."""
    more = slots - live.running.shape[1]
    if more <= 0:
        return live
    wider = {}
    for name in ("running", "run", "run_more", "run_at", "run_ends_at_s", "left", "left_s"):
        column = getattr(live, name)
        wider[name] = np.concatenate([column, np.zeros((len(column), more, *column.shape[2:]), column.dtype)], axis=1)
    return live._replace(**wider)


def clear(live: Live, clusters: NDArray[np.int64]) -> None:
    """First values for some clusters."""
    for column in live:
        column[clusters] = 0
    live.pod_state[clusters, :, POD_STATE.node] = -1
    live.pod_state[clusters, :, POD_STATE.known_node] = -1
    live.observed[clusters] = np.nan
    for row, value in FIRST_NODE_VALUES.items():
        live.node[clusters, row] = value


# --- what never changes

TAPE_NODE = rows(
    "TAPE_NODE",
    "cpu_millicores memory_mib pods gpus nic_mbps nic_known zone user_latency_ms price_usd_per_hour power_idle_watts"
    " power_peak_watts background_memory_mib maintenance_start_s maintenance_end_s",
)
TAPE_APP = rows("TAPE_APP", "sibling_mbps sibling_declared")
TAPE_POD = rows(
    "TAPE_POD",
    "initial arrival_s duration_s app labelled cpu_request_millicores memory_request_mib gpus gpu_milli cpu_use_ratio"
    " memory_use_ratio rx_mbps tx_mbps annotated_mbps latency_soft_ms latency_hard_ms start override visible_after",
)
TAPE_LOAD = rows("TAPE_LOAD", "cpu_ratio rx_ratio tx_ratio")
RULE = rows(
    "RULE",
    "load_step_s scrape_interval_s scrape_delay_s rate_window_s pod_metrics horizon_s tick_s pending_timeout_s"
    " candidate_minimum latency_limited",
)


class Tapes(NamedTuple):
    node: NDArray[np.float64]  # (tapes, TAPE_NODE, nodes)
    app: NDArray[np.float64]  # (tapes, TAPE_APP, apps)
    pod: NDArray[np.float32]  # (tapes, pods, TAPE_POD)
    zone_rtt_ms: NDArray[np.float64]  # (tapes, zones, zones)
    app_load: NDArray[np.float32]  # (tapes, steps, apps)
    background: NDArray[np.float32]  # (tapes, TAPE_LOAD, steps, nodes)
    scrape_missing: NDArray[np.bool_]  # (tapes, scrapes, nodes)
    rule: NDArray[np.float64]  # (tapes, RULE)


def pack(tape: Tape) -> Tapes:
    """A stack of tapes as the kernels read it."""

    def together(prefix: str, names: Any, dtype: type, axis: int = 1) -> NDArray[Any]:
        return np.stack([getattr(tape, prefix + name) for name in names], axis=axis).astype(dtype)

    limited = np.isfinite(tape.pod_latency_soft_ms) & np.isfinite(tape.pod_arrival_s)
    rule = together("", RULE._fields[:-1], np.float64)
    return Tapes(
        node=together("node_", TAPE_NODE._fields, np.float64),
        app=together("app_", TAPE_APP._fields, np.float64),
        pod=together("pod_", TAPE_POD._fields, np.float32, axis=2),
        zone_rtt_ms=np.ascontiguousarray(tape.zone_rtt_ms),
        app_load=np.ascontiguousarray(tape.app_load),
        background=together("background_", TAPE_LOAD._fields, np.float32),
        scrape_missing=np.ascontiguousarray(tape.scrape_missing),
        rule=np.concatenate([rule, limited.any(axis=-1, keepdims=True)], axis=1),  # the last one says if any pod is
    )
