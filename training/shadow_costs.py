"""What a pod is predicted to cost on a node, from a row of recorded features: one fixed formula for everybody.

Only what this pod adds counts. The prices are those of ``envs.rewards``; docs/decisions.md says what this is worth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from agent.features import TRAFFIC_SCALE_MBPS
from envs.dynamics.costs import MBIT_PER_GB, SECONDS_PER_HOUR
from envs.rewards import CostWeights
from envs.workloads.recording_records import NodeSpec, PodDemand

WEIGHTS = CostWeights()
SOFT_SHARE = 0.5  # of a latency violation between the soft and the hard limit
GB_PER_MBPS_HOUR = SECONDS_PER_HOUR / MBIT_PER_GB

Row = Mapping[str, float]  # features by name


def usd_per_hour(row: Row, node: NodeSpec | None, demand: PodDemand) -> float:
    """Predicted for one hour of the pod on this node."""
    lost_mbps = _over(row["rx_expected_ratio"], demand.expected_rx_mbps, _nic(node))
    lost_mbps += _over(row["tx_expected_ratio"], demand.expected_tx_mbps, _nic(node))
    cores = _over(row["cpu_expected_ratio"], demand.expected_cpu_millicores, _cpu(node)) / 1000.0
    cross_zone_mbps = TRAFFIC_SCALE_MBPS * math.expm1(row["cross_zone_traffic"])
    return (
        WEIGHTS.network_loss * lost_mbps * GB_PER_MBPS_HOUR
        + WEIGHTS.cpu_throttling * cores * SECONDS_PER_HOUR
        + WEIGHTS.cross_zone * cross_zone_mbps * GB_PER_MBPS_HOUR
        + WEIGHTS.latency_violation * SOFT_SHARE * (row["latency_excess"] > 0) * SECONDS_PER_HOUR
        + WEIGHTS.money * (row["empty"] > 0) * _price(node)
    )


def fullest(row: Row) -> float:
    """The largest of the four expected ratios with the pod there."""
    return row["worst_expected_ratio"]


def _over(ratio_after: float, added: float | None, capacity: float) -> float:
    """How much of what the pod adds is above the capacity, in the unit of the capacity."""
    if not added or not capacity:
        return 0.0
    return min(max(ratio_after - 1.0, 0.0) * capacity, added)


def _nic(node: NodeSpec | None) -> float:
    return (node.nic_mbps or 0.0) if node else 0.0


def _cpu(node: NodeSpec | None) -> float:
    return node.cpu_allocatable_millicores if node else 0.0


def _price(node: NodeSpec | None) -> float:
    return (node.price_usd_per_hour or 0.0) if node else 0.0
