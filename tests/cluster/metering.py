"""What a cluster suffered, summed tick by tick, by the same rules whether it is simulated or scheduled for real."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from envs.dynamics.cluster import Cluster
from envs.dynamics.contention import lost
from envs.dynamics.loading import Loads

MILLICORES = 1000.0


@dataclass(slots=True)
class Meter:
    offered_mbit: float = 0.0  # to the NICs
    lost_mbit: float = 0.0
    overload_s: float = 0.0  # node-seconds in which a NIC was asked for more than it has
    sent_mbit: float = 0.0  # by pods, to whomever and wherever
    cross_zone_mbit: float = 0.0
    wanted_core_s: float = 0.0
    throttled_core_s: float = 0.0

    def add(self, cluster: Cluster, loads: Loads) -> None:
        """One tick under these loads."""
        tape, tick_s = cluster.tape, float(cluster.tape.tick_s)
        ways = (loads.rx_mbps, loads.tx_mbps)
        self.offered_mbit += float(sum(way.sum() for way in ways)) * tick_s
        self.lost_mbit += float(sum(_lost(way, tape.node_nic_mbps) for way in ways)) * tick_s
        self.overload_s += float((np.maximum(*ways) > tape.node_nic_mbps).sum()) * tick_s
        self.sent_mbit += sum(loads.pod_tx_mbps) * tick_s
        self.cross_zone_mbit += loads.cross_zone_mbps * tick_s
        self.wanted_core_s += float(loads.cpu_millicores.sum()) / MILLICORES * tick_s
        self.throttled_core_s += _lost(loads.cpu_millicores, tape.node_cpu_millicores) / MILLICORES * tick_s

    @property
    def lost_share(self) -> float:
        """Of all traffic that was offered to the NICs."""
        return _share(self.lost_mbit, self.offered_mbit)

    @property
    def cross_zone_share(self) -> float:
        """Of all that the pods sent: a sum that no placement changes."""
        return _share(self.cross_zone_mbit, self.sent_mbit)

    @property
    def throttled_share(self) -> float:
        """Of the CPU that was wanted."""
        return _share(self.throttled_core_s, self.wanted_core_s)


def _lost(asked: np.ndarray, capacity: np.ndarray) -> float:
    return float(sum(lost(float(each), float(most)) for each, most in zip(asked, capacity, strict=True)))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
