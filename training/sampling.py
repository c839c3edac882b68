"""The truth of the nodes while episodes are played: how busy the NICs were, and how much there was to lose.

Weighted by time, not by decisions, which crowd in bursts. What was offered gives harm a scale: lost traffic is a share
of offered traffic, throttled CPU of wanted CPU, and what happens to pods a share of the pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agent.cluster import FloatArray
from envs.batch_arrays import COUNT
from envs.batch_env import BatchEnv
from envs.dynamics.costs import MBIT_PER_GB

BIN_WIDTH = 0.01
BINS = 200  # up to twice the NIC speed; what is above is in the last one


@dataclass(frozen=True, slots=True)
class Sampled:
    """Sums over the time of all episodes of one player."""

    nic_node_s: FloatArray  # (BINS,): node-seconds by offered load of the busier direction over NIC speed
    offered_gb: float  # traffic that the NICs were asked to carry
    wanted_core_s: float
    running_pod_s: float

    def nic_share_below(self) -> FloatArray:
        """Cumulative share of node-seconds up to the upper edge of every bin."""
        return np.asarray(np.cumsum(self.nic_node_s) / max(self.nic_node_s.sum(), 1e-12))


def together(parts: Sequence[Sampled]) -> Sampled:
    return Sampled(
        np.sum([part.nic_node_s for part in parts], axis=0),
        sum(part.offered_gb for part in parts),
        sum(part.wanted_core_s for part in parts),
        sum(part.running_pod_s for part in parts),
    )


class Sampler:
    """Looks after every step; the loads of the last tick stand for the time since the step before."""

    def __init__(self, env: BatchEnv) -> None:
        self._nic_mbps = env.tape.node_nic_mbps[env.tape_of]  # (clusters, nodes); 0 where there is no node
        self._clock_s = env.clock_s.copy()
        self._nic_node_s = np.zeros(BINS)
        self._sums = np.zeros(3)

    def look(self, env: BatchEnv) -> None:
        passed_s = env.clock_s - self._clock_s
        rows = np.flatnonzero(passed_s > 0)
        if not len(rows):
            return
        self._clock_s[rows] = env.clock_s[rows]
        nic, span_s = self._nic_mbps[rows], passed_s[rows]
        rx, tx = env.truth("load_rx")[rows], env.truth("load_tx")[rows]
        there = nic > 0
        ratio = np.maximum(rx, tx)[there] / nic[there]
        place = np.minimum((ratio / BIN_WIDTH).astype(np.int64), BINS - 1)
        weight = np.broadcast_to(span_s[:, None], nic.shape)[there]
        self._nic_node_s += np.bincount(place, weight, minlength=BINS)
        running = env.live.count[rows, COUNT.running]
        self._sums += (
            float((rx + tx).sum(axis=1) @ span_s) / MBIT_PER_GB,
            float(env.truth("load_cpu")[rows].sum(axis=1) @ span_s) / 1000.0,
            float(running @ span_s),
        )

    def sampled(self) -> Sampled:
        return Sampled(self._nic_node_s, *(float(value) for value in self._sums))
