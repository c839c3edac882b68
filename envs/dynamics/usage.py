"""What a running pod and a node use."""

from __future__ import annotations

from typing import TypeVar

from agent.cluster import FloatArray

Amount = TypeVar("Amount", float, FloatArray)


def cpu_demand_millicores(request_millicores: float, use_ratio: float, load: float) -> float:
    """CPU a pod wants now: a share of its request that moves with the load of its app."""
    return request_millicores * use_ratio * load


def memory_use_mib(request_mib: float, use_ratio: float) -> float:
    """Memory does not move with load: caches and heaps keep what they took."""
    return request_mib * use_ratio


def connections(traffic_mbps: Amount) -> Amount:
    """Established connections of a node: about two for each Mbit/s it offers."""
    return 2.0 * traffic_mbps


def node_power_watts(idle_watts: float, peak_watts: float, cpu_ratio: float, pods: float) -> float:
    """Linear between idle and peak (Fan et al., ISCA '07); a node without pods is switched off."""
    if pods <= 0:
        return 0.0
    return idle_watts + (peak_watts - idle_watts) * min(cpu_ratio, 1.0)


def active_price_usd_per_hour(price_usd_per_hour: float, pods: float) -> float:
    """A node is paid for while it holds a pod: an empty one is given back by the autoscaler."""
    return price_usd_per_hour if pods > 0 else 0.0
