"""Prefer the node with the least traffic: as the NetworkTraffic plugin says it, and as it has to be to mean it.

Both read the last scraped rate alone. In a burst they send every pod to the node that was idle at that scrape:
``expected_utilisation`` counts what is on its way, these two do not, and they are here to be compared with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.heuristics.normalise import normalise_to_highest
from agent.heuristics.shares import nic_share


@dataclass(frozen=True, slots=True)
class NetworkTraffic:
    """From the NetworkTraffic plugin (SoniaMatrangaTesi), its fallback when the agent does not answer.

    Formula: 100 - traffic x 100 / max traffic, over the receive rate of the last scrape; the maximum is that of the
    candidates. Without any traffic every node scores 100, where the plugin divides by zero. A node without a series
    scores NaN, and the ladder holds it neutral.
    """

    name: ClassVar[str] = "network_traffic"
    needs: ClassVar[tuple[str, ...]] = ("network",)

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        return 100.0 - normalise_to_highest(state.rx_mbps, candidates)


@dataclass(frozen=True, slots=True)
class NetworkTrafficCorrected:
    """From the NetworkTraffic plugin, with both directions and the speed of the NIC.

    Formula: 100 x (1 - max(receive, transmit) / NIC speed), of the last scrape. A node of unknown NIC speed takes the
    candidates' median ratio; a node without a series scores NaN, and the ladder holds it neutral.
    """

    name: ClassVar[str] = "network_traffic_corrected"
    needs: ClassVar[tuple[str, ...]] = ("network",)

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        busier_mbps = np.maximum(state.rx_mbps, state.tx_mbps)
        score = nic_share(busier_mbps, state.nic_mbps, candidates)
        score *= -100.0
        score += 100.0
        return score
