"""A tape: everything that happens to one cluster whatever the scheduler does.

Generators and trace importers write tapes; the simulators only read them. Arrivals, loads, gaps and
overrides stand on the tape before the first decision, so they cannot depend on actions: two policies on
one tape see exactly the same world, and a whole group of clusters can share one.

The values hold the truth. What of it a sidecar may know is decided in ``envs.dynamics``, not here.
Arrays name their axes in ``AXES``; ``stack`` pads them to one size with absent nodes, pods and apps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.cluster import GPU_MILLI, GPUS_PER_NODE
from agent.errors import InputError

Array = NDArray[Any]

NODES, PODS, APPS, ZONES, STEPS, SCRAPES = "nodes", "pods", "apps", "zones", "steps", "scrapes"


@dataclass(frozen=True)
class Tape:
    """One episode. Scalars are 0-d arrays, so that a stack of tapes is the same class with one more axis."""

    # nodes
    node_cpu_millicores: Array
    node_memory_mib: Array
    node_pods: Array
    node_gpus: Array
    node_nic_mbps: Array
    node_nic_known: Array  # whether the sidecar can learn the NIC speed
    node_zone: Array
    node_user_latency_ms: Array
    node_price_usd_per_hour: Array
    node_power_idle_watts: Array
    node_power_peak_watts: Array
    node_background_memory_mib: Array
    node_maintenance_start_s: Array  # inf: none
    node_maintenance_end_s: Array
    zone_rtt_ms: Array
    # apps
    app_sibling_mbps: Array  # what each pod sends to its siblings, in sum, at load 1
    app_sibling_declared: Array  # whether an annotation says so
    # pods, in order of arrival; initial ones first
    pod_initial: Array  # already running when the episode starts
    pod_arrival_s: Array  # inf: no such pod
    pod_duration_s: Array  # for initial pods: what is left
    pod_app: Array
    pod_labelled: Array  # whether the sidecar can tell its app
    pod_cpu_request_millicores: Array
    pod_memory_request_mib: Array
    pod_gpus: Array
    pod_gpu_milli: Array
    pod_cpu_use_ratio: Array  # of the request, at load 1
    pod_memory_use_ratio: Array
    pod_rx_mbps: Array  # from and to outside the cluster, at load 1
    pod_tx_mbps: Array
    pod_annotated_mbps: Array  # what its annotation claims for each direction; NaN: none
    pod_latency_soft_ms: Array  # NaN: none
    pod_latency_hard_ms: Array
    pod_start: Array  # 0..1: where kube-scheduler starts to look for feasible nodes
    pod_override: Array  # 0..1: bound to that candidate instead of our choice; -1: our choice holds
    pod_visible_after: Array  # decisions until the watch shows the binding
    # loads over time
    app_load: Array  # (steps, apps), mean about 1
    background_cpu_ratio: Array  # (steps, nodes)
    background_rx_ratio: Array  # of the NIC speed
    background_tx_ratio: Array
    load_step_s: Array
    # scraping
    scrape_missing: Array  # (scrapes, nodes)
    scrape_interval_s: Array
    scrape_delay_s: Array
    rate_window_s: Array
    pod_metrics: Array  # whether per-pod traffic and CPU use are scraped at all
    # rules of this world
    horizon_s: Array
    tick_s: Array
    pending_timeout_s: Array
    candidate_minimum: Array  # kube-scheduler scores at least so many feasible nodes

    @property
    def node_slots(self) -> int:
        return int(self.node_cpu_millicores.shape[-1])

    @property
    def pod_slots(self) -> int:
        return int(self.pod_arrival_s.shape[-1])

    @property
    def app_slots(self) -> int:
        return int(self.app_sibling_mbps.shape[-1])

    @property
    def zone_slots(self) -> int:
        return int(self.zone_rtt_ms.shape[-1])

    def one(self, index: int) -> Tape:
        """One tape out of a stack."""
        return Tape(**{column.name: getattr(self, column.name)[index] for column in fields(self)})


# Axes and padding of every column that is not a scalar. A padded node has no capacity, a padded pod never arrives.
AXES: dict[str, tuple[tuple[str, ...], float]] = {
    **{column.name: ((NODES,), 0) for column in fields(Tape) if column.name.startswith("node_")},
    **{column.name: ((APPS,), 0) for column in fields(Tape) if column.name.startswith("app_sibling")},
    **{
        column.name: ((PODS,), 0)
        for column in fields(Tape)
        if column.name.startswith("pod_") and column.name != "pod_metrics"
    },
    "node_maintenance_start_s": ((NODES,), np.inf),
    "node_maintenance_end_s": ((NODES,), np.inf),
    "pod_arrival_s": ((PODS,), np.inf),
    "zone_rtt_ms": ((ZONES, ZONES), 0),
    "app_load": ((STEPS, APPS), 1),
    "background_cpu_ratio": ((STEPS, NODES), 0),
    "background_rx_ratio": ((STEPS, NODES), 0),
    "background_tx_ratio": ((STEPS, NODES), 0),
    "scrape_missing": ((SCRAPES, NODES), 1),
}

DTYPES: dict[str, type] = {
    **dict.fromkeys(("node_nic_known", "app_sibling_declared", "pod_initial", "pod_labelled"), np.bool_),
    **dict.fromkeys(("scrape_missing", "pod_metrics"), np.bool_),
    **dict.fromkeys(("node_zone", "node_gpus", "candidate_minimum"), np.int64),
    **dict.fromkeys(("pod_app", "pod_visible_after", "pod_gpus", "pod_gpu_milli"), np.int16),
}

# The large columns are kept in single precision: both simulators read the same rounded value.
SINGLE = tuple(name for name, (axes, _) in AXES.items() if (PODS in axes or STEPS in axes) and name not in DTYPES)


def dtype_of(column: str) -> type:
    return DTYPES.get(column, np.float32 if column in SINGLE else np.float64)


def make(**columns: Any) -> Tape:
    """Build a tape with the right types, refusing what no cluster can be."""
    tape = Tape(**{name: np.asarray(value, dtype=dtype_of(name)) for name, value in columns.items()})
    validate(tape)
    return tape


NOT_NEGATIVE = tuple(
    name
    for name in (column.name for column in fields(Tape))
    if name.startswith(("node_", "background_", "app_load", "app_sibling_mbps", "pod_cpu", "pod_memory", "zone_"))
    or name in ("pod_rx_mbps", "pod_tx_mbps", "pod_arrival_s", "pod_duration_s", "scrape_delay_s")
)
ENDLESS = ("node_maintenance_start_s", "node_maintenance_end_s", "pod_arrival_s")  # infinite: never
POSITIVE = (
    *("node_cpu_millicores", "node_memory_mib", "node_nic_mbps"),
    *("load_step_s", "scrape_interval_s", "rate_window_s", "horizon_s", "tick_s", "pending_timeout_s"),
    "candidate_minimum",
)
MOST_DECISIONS_LATE = 64  # until the watch shows a binding
BETWEEN: dict[str, tuple[float, float]] = {
    "node_gpus": (0, GPUS_PER_NODE),
    "pod_gpus": (0, GPUS_PER_NODE),
    "pod_gpu_milli": (0, GPU_MILLI),
    "pod_start": (0, 1),
    "pod_override": (-1, 1),
    "pod_visible_after": (0, MOST_DECISIONS_LATE),
}


def validate(tape: Tape) -> None:
    """Compiled code trusts a tape blindly, so whatever could lead it astray is refused here, by the column's name."""
    _check_shapes(tape)
    _check_numbers(tape)
    _check_order(tape)
    _check_ring(tape)


def _check_shapes(tape: Tape) -> None:
    sizes = {axis: _size(tape, axis) for axis in (NODES, PODS, APPS, ZONES, STEPS, SCRAPES)}
    for axis in (NODES, APPS, ZONES, STEPS, SCRAPES):
        if sizes[axis] == 0:
            raise InputError(f"a tape without {axis} is no cluster")
    for column in fields(Tape):
        axes = AXES[column.name][0] if column.name in AXES else ()
        shape = getattr(tape, column.name).shape
        if shape != tuple(sizes[axis] for axis in axes):
            wanted = ", ".join(f"{sizes[axis]} {axis}" for axis in axes) or "one number"
            raise InputError(f"{column.name} has the shape {shape}, where the other columns have {wanted}")


def _check_numbers(tape: Tape) -> None:
    def check(name: str, holds: Array, rule: str) -> None:
        if not np.all(holds):  # NaN fails every comparison
            raise InputError(f"{name} must be {rule}, found {getattr(tape, name)[~holds].flat[0]}")

    for name in NOT_NEGATIVE:
        values = getattr(tape, name)
        finite = name in ENDLESS or values < np.inf
        check(name, np.asarray((values >= 0) & finite), "a number of at least 0")
    for name in POSITIVE:
        values = getattr(tape, name)
        check(name, np.asarray((values > 0) & (values < np.inf)), "a number above 0")
    last = {"node_zone": (0.0, tape.zone_slots - 1), "pod_app": (0.0, tape.app_slots - 1)}
    for name, (low, high) in {**BETWEEN, **last}.items():
        values = getattr(tape, name)
        check(name, np.asarray((values >= low) & (values <= high)), f"between {low:g} and {high:g}")


def _check_order(tape: Tape) -> None:
    if np.any(tape.pod_arrival_s[1:] < tape.pod_arrival_s[:-1]):
        raise InputError("pod_arrival_s must not fall: sort the pods by arrival")
    if np.any(tape.pod_initial[1:] & ~tape.pod_initial[:-1]):
        raise InputError("pod_initial: the pods that already run must come first")


def _check_ring(tape: Tape) -> None:
    samples = ring_length(tape)
    if samples > RING:
        raise InputError(
            f"rate_window_s + scrape_delay_s span {samples} scrapes, at most {RING} are kept:"
            " lengthen scrape_interval_s or shorten the window or the delay"
        )


RING = 16  # scrapes that are remembered: enough for a window of 2 minutes and a delay of 1, every 15 s


def ring_length(tape: Tape) -> int:
    """Scrapes that must be remembered to answer a rate over the window, this late."""
    span_s = tape.rate_window_s + tape.scrape_delay_s
    return int(np.ceil(np.max(span_s / tape.scrape_interval_s))) + 1


@dataclass(frozen=True, slots=True)
class Sizes:
    """Slots of every axis; tapes of equal sizes can take each other's place."""

    nodes: int
    pods: int
    apps: int
    zones: int
    steps: int
    scrapes: int


def stack(tapes: Sequence[Tape], sizes: Sizes | None = None) -> Tape:
    """Many tapes as one, padded to the sizes given, or to the largest of them."""
    slots = {axis: max(_size(tape, axis) for tape in tapes) for axis in (NODES, PODS, APPS, ZONES, STEPS, SCRAPES)}
    if sizes is not None:
        slots = {axis: getattr(sizes, axis) for axis in slots}
    return Tape(**{column.name: _stack_column(column.name, tapes, slots) for column in fields(Tape)})


def _stack_column(name: str, tapes: Sequence[Tape], sizes: dict[str, int]) -> Array:
    axes, padding = AXES.get(name, ((), 0))
    shape = tuple(sizes[axis] for axis in axes)
    stacked: Array = np.full((len(tapes), *shape), padding, dtype=dtype_of(name))
    for index, tape in enumerate(tapes):
        row, values = stacked[index, ...], getattr(tape, name)
        if any(length > room for length, room in zip(values.shape, shape, strict=True)):
            raise InputError(f"{name} of a tape has the shape {values.shape}: there is room for {shape}")
        row[tuple(slice(length) for length in values.shape)] = values
        if STEPS in axes:  # a shorter series goes on with its last value
            row[values.shape[0] :, : values.shape[1]] = values[-1]
    return stacked


def _size(tape: Tape, axis: str) -> int:
    name = next(column for column, (axes, _) in AXES.items() if axis in axes)
    return int(getattr(tape, name).shape[AXES[name][0].index(axis)])
