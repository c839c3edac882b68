"""How much of all NICs the pods of a tape ask for, and less of it where no scheduler could place it.

Whoever runs a cluster gives it NICs for what its pods send. A few heavy-tailed draws are enough to forget that: two
episodes in five of ``bursts`` asked for more than all NICs together carry, lost it whoever scheduled, and cost more
than all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from agent.cluster import FloatArray
from envs.workloads.arrivals import Columns

_TRAFFIC_OF_PODS = ("pod_rx_mbps", "pod_tx_mbps", "pod_annotated_mbps")


def scales(columns: Mapping[str, Any], most: float) -> FloatArray:
    """What the traffic of each app is multiplied with, so that no pod asks for more than this share of the largest NIC,
    and all of them together, at the busiest moment, for no more than this share of all NICs."""
    largest = largest_pods_mbps(columns) / (most * columns["node_nic_mbps"].max(initial=0.0))
    each = 1.0 / np.maximum(np.nan_to_num(largest), 1.0)
    room = np.inf
    for pods_mbps, background_mbps in asked_mbps(columns, each):
        carried_mbps = np.maximum(most * columns["node_nic_mbps"].sum() - background_mbps, 0.0)
        room = min(room, float(np.min(carried_mbps / np.maximum(pods_mbps, 1e-9), initial=np.inf)))
    return np.asarray(each * min(room, 1.0))


def scaled(columns: Mapping[str, Any], scale: FloatArray) -> Columns:
    """The columns that speak of traffic, each app's multiplied with its number."""
    of_pods = {name: columns[name] * scale[columns["pod_app"]] for name in _TRAFFIC_OF_PODS}
    return {**of_pods, "app_sibling_mbps": columns["app_sibling_mbps"] * scale}


def asked_mbps(columns: Mapping[str, Any], scale: FloatArray | float = 1.0) -> list[tuple[FloatArray, FloatArray]]:
    """By all pods and by what runs beside them, step by step, received and sent, if no pod had a sibling beside it."""
    load = _running_load(columns)
    app, nic_mbps = columns["pod_app"], columns["node_nic_mbps"]
    weight = np.broadcast_to(scale, columns["app_sibling_mbps"].shape)[app]
    siblings_mbps = columns["app_sibling_mbps"][app]
    return [
        (
            load @ (weight * (columns[f"pod_{way}_mbps"] + siblings_mbps)),
            columns[f"background_{way}_ratio"][: len(load)] @ nic_mbps,
        )
        for way in ("rx", "tx")
    ]


def largest_pods_mbps(columns: Mapping[str, Any]) -> FloatArray:
    """Of the largest pod of each app in its busier direction, at its largest load, (apps,)."""
    app = columns["pod_app"]
    busier = np.maximum(columns["pod_rx_mbps"], columns["pod_tx_mbps"]) + columns["app_sibling_mbps"][app]
    most = np.zeros(len(columns["app_sibling_mbps"]))
    np.maximum.at(most, app, _running_load(columns).max(axis=0, initial=0.0) * busier)
    return most


def _running_load(columns: Mapping[str, Any]) -> FloatArray:
    """The load of every pod's app while it would run if each were placed as it comes, else 0, (steps, pods)."""
    step_s = float(columns["load_step_s"])
    middle_s = (np.arange(int(float(columns["horizon_s"]) / step_s)) + 0.5)[:, None] * step_s
    arrival_s, duration_s = columns["pod_arrival_s"], columns["pod_duration_s"]
    runs = (arrival_s <= middle_s) & (middle_s < arrival_s + duration_s)
    return np.asarray(columns["app_load"][: len(middle_s), columns["pod_app"]] * runs)
