"""The four hand-made policies of the NetworkTraffic thesis (SoniaMatrangaTesi), as scorers.

There they are the rewards that its agent learns from; here each scorer's best node is the one its reward rewards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray

USED_ABOVE_PODS = 5.0  # a node with more pods than this counts as used
FULL_NODE_PODS = 50.0  # P0 counts a used node as full at this many
TIE_BREAK = 1e-6  # per pod; far below any step of the reward


@dataclass(frozen=True, slots=True)
class MostPods:
    """From the thesis: policy ``MA``, most allocated. Formula: the number of pods on the node.

    Its reward, 10 x unused / n, is paid only when the node with the most pods is chosen.
    """

    name: ClassVar[str] = "ma"
    needs: ClassVar[tuple[str, ...]] = ()

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        return state.pods_running.copy()


@dataclass(frozen=True, slots=True)
class LeastPods:
    """From the thesis: policy ``LA``, least allocated. Formula: minus the number of pods on the node.

    Its reward is +10 for the node with the fewest pods, -1 for the one with the most, 0 for the others.
    """

    name: ClassVar[str] = "la"
    needs: ClassVar[tuple[str, ...]] = ()

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        return -state.pods_running


@dataclass(frozen=True, slots=True)
class LeastConnections:
    """From the thesis: policy ``LC``, least connections. Formula: minus the node's open TCP connections.

    Its reward, 1 - min / max connections, is paid only when the node with the fewest is chosen. A node whose
    connections are unknown scores NaN, and the ladder holds it neutral.
    """

    name: ClassVar[str] = "lc"
    needs: ClassVar[tuple[str, ...]] = ("network",)

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        return -state.connections


@dataclass(frozen=True, slots=True)
class LatencyAwareMostPods:
    """From the thesis: policy ``P0``, latency-aware most allocated. Formula: r1 + r2 + r3 after this placement.

    Over the n candidates, a node being used when it has more than 5 pods:

    * r1 = (n - used) / n
    * r2 = (pods / used) / 50, and 0 when no node is used
    * r3 = 1 if the node's latency is within the pod's soft limit, 0.5 within the hard one, 0 above both; without a
      limit 1; 0.5 where the latency is unknown, which must not look like the best one

    Where that is equal the node with more pods is first: the reward's aim is to leave nodes unused.
    """

    name: ClassVar[str] = "p0"
    needs: ClassVar[tuple[str, ...]] = ()

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        pods = state.pods_running
        count = np.maximum(candidates.sum(axis=-1), 1)[..., None]
        used = np.sum(pods > USED_ABOVE_PODS, axis=-1, where=candidates)[..., None]
        total = 1.0 + np.sum(pods, axis=-1, where=candidates)[..., None]
        becomes_used = (pods <= USED_ABOVE_PODS) & (pods + 1.0 > USED_ABOVE_PODS)
        # Only two outcomes: the placement switches one more node to "used", or it does not.
        same, more = _packing(count, used, total), _packing(count, used + 1, total)
        score = _latency(state.user_latency_ms, demand)
        score += np.where(becomes_used, more, same)
        score += TIE_BREAK * pods
        return score


def _packing(count: FloatArray, used: FloatArray, pods: FloatArray) -> FloatArray:
    """r1 + r2 for this many used nodes."""
    per_used = np.divide(pods, used, out=np.zeros(pods.shape), where=used > 0)
    return np.asarray((count - used) / count + per_used / FULL_NODE_PODS)


def _latency(latency_ms: FloatArray, demand: Demand) -> FloatArray:
    """r3: 1, 0.5 or 0; a limit that the pod does not set is kept by every node."""
    soft_ms, hard_ms = demand.latency_soft_ms[..., None], demand.latency_hard_ms[..., None]
    limited = ~(np.isnan(soft_ms) & np.isnan(hard_ms))
    if not limited.any():
        return np.ones(latency_ms.shape)
    reward = np.where(latency_ms > soft_ms, 0.5, 1.0)  # comparing with NaN is false
    reward[latency_ms > hard_ms] = 0.0
    reward[limited & np.isnan(latency_ms)] = 0.5
    return reward
