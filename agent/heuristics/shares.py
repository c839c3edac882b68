"""What share of a node a load takes: the one division that most heuristics begin with.

Two rules are kept here so that every heuristic follows them. A resource of which a node has nothing is full, never
free. A NIC of unknown speed takes the median of the candidates, so that it makes a node neither best nor worst.
"""

from __future__ import annotations

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.scorer import masked_median


def share_of(amount: FloatArray, capacity: FloatArray) -> FloatArray:
    """``amount / capacity``, and 1 where there is no capacity. Overwrites ``amount``, which it returns."""
    with np.errstate(divide="ignore", invalid="ignore"):
        amount /= capacity
    if not np.min(capacity, initial=np.inf) > 0:
        amount[capacity <= 0] = 1.0
    return amount


def cpu_share_requested(state: ClusterState, demand: Demand) -> FloatArray:
    """CPU requested over allocatable, this pod included; at most 1, as kube-scheduler caps it."""
    requested = state.cpu_requested_millicores + demand.cpu_request_millicores[..., None]
    share = share_of(requested, state.cpu_allocatable_millicores)
    return np.minimum(share, 1.0, out=share)


def memory_share_requested(state: ClusterState, demand: Demand) -> FloatArray:
    """Memory requested over allocatable, this pod included; at most 1, as kube-scheduler caps it."""
    requested = state.memory_requested_mib + demand.memory_request_mib[..., None]
    share = share_of(requested, state.memory_allocatable_mib)
    return np.minimum(share, 1.0, out=share)


def nic_share(mbps: FloatArray, nic_mbps: FloatArray, candidates: BoolArray) -> FloatArray:
    """``mbps / nic_mbps``; where the speed is unknown the median of the candidates. Overwrites ``mbps``.

    NaN stays NaN: traffic that nobody measured is missing, whatever the speed of the NIC.
    """
    if np.min(nic_mbps, initial=np.inf) > 0:  # false for NaN
        mbps /= nic_mbps
        return mbps
    known = nic_mbps > 0
    measured = ~np.isnan(mbps)
    np.divide(mbps, nic_mbps, out=mbps, where=known)
    median = masked_median(mbps, candidates & known & measured)[..., None]
    np.copyto(mbps, median, where=measured & ~known)
    return mbps
