"""What a cluster costs while it runs: the terms, in the units in which people pay for them."""

from __future__ import annotations

import numpy as np

from agent.cluster import FloatArray

# Name: unit. The order is the order of every array of terms.
TERMS: dict[str, str] = {
    "network_loss": "GB of traffic that the NICs could not carry",
    "cross_zone": "GB sent between zones",
    "latency_violation": "pod-seconds above a latency limit (half of them between soft and hard)",
    "cpu_throttling": "core-seconds wanted and not given",
    "memory_kills": "pods killed for memory",
    "imbalance": "seconds x standard deviation of node utilisation",
    "fragmentation": "core-seconds free but unusable, as memory or CPU runs out first",
    "pending_time": "pod-seconds waited for a node",
    "failures": "pods given up after waiting too long",
    "energy": "kWh of nodes that hold pods",
    "money": "US dollars for nodes that hold pods",
}
TERM = {name: index for index, name in enumerate(TERMS)}

NETWORK_LOSS, CROSS_ZONE, LATENCY, THROTTLING, KILLS, IMBALANCE = range(6)
FRAGMENTATION, PENDING, FAILURES, ENERGY, MONEY = range(6, len(TERMS))

MBIT_PER_GB = 8000.0
JOULES_PER_KWH = 3.6e6
SECONDS_PER_HOUR = 3600.0


def no_costs() -> FloatArray:
    return np.zeros(len(TERMS))
