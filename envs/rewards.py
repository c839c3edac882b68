"""What a decision was worth: the one table of cost weights in dollars, and the rewards of the thesis.

The simulators measure costs in the units of ``envs.dynamics.costs.TERMS``; ``WEIGHTS`` turns all of them into US
dollars, for every scenario alike. docs/costs.md says for each price where it comes from, and a test keeps the two
equal. ``DIGEST`` names the table in every result: a changed price is another experiment.

The rewards ``ma``, ``la``, ``lc``, ``p0`` and ``argmin`` are those of SoniaMatrangaTesi (S1.24 to S1.28), measured
after the pod was placed and on the node where it was really bound (S1.29). All work on the last axis, the nodes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from agent.cluster import BoolArray, FloatArray, IntArray
from agent.errors import InputError
from envs.dynamics.costs import SECONDS_PER_HOUR, TERMS

# --- dollars


def per_second(usd_per_hour: float) -> float:
    """Prices are quoted by the hour, the simulators count seconds."""
    return usd_per_hour / SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True)
class CostWeights:
    """US dollars for one unit of each term, in the units of TERMS; the reasons are in docs/costs.md."""

    network_loss: float = 0.25  # GB
    cross_zone: float = 0.02  # GB
    latency_violation: float = per_second(0.36)  # pod-second
    cpu_throttling: float = per_second(0.40)  # core-second
    memory_kills: float = 0.05  # pod
    imbalance: float = per_second(0.10)  # second at a standard deviation of 1
    fragmentation: float = per_second(0.005)  # core-second
    pending_time: float = per_second(0.36)  # pod-second
    failures: float = 0.25  # pod
    energy: float = 0.15  # kWh
    money: float = 1.0  # dollar

    def values(self) -> FloatArray:
        """In the order of TERMS, (terms,)."""
        return np.array([getattr(self, name) for name in TERMS])

    def digest(self) -> str:
        """Names this table in every result; a change of any price changes it."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


WEIGHTS = CostWeights()
DIGEST = WEIGHTS.digest()
INVALID_ACTION_USD = WEIGHTS.failures  # for a decision outside the mask, where it is not refused


def dollars(terms: FloatArray, weights: CostWeights = WEIGHTS) -> FloatArray:
    """Dollars of each term, (..., terms)."""
    return terms * weights.values()


def weighted_cost(terms: FloatArray, weights: CostWeights = WEIGHTS) -> FloatArray:
    """Dollars of all terms together, (...)."""
    return np.asarray(terms @ weights.values())


# --- rewards


@dataclass(frozen=True, slots=True)
class Outcome:
    """A cluster after one decision: costs until the next one, and the nodes right after the pod was bound.

    Arrays of nodes are (..., nodes), this pod included; what belongs to the pod is (...). The pod's own part lets a
    reward ask whether the choice was right: a heavy pod makes even the best node the fullest.
    """

    terms: FloatArray  # (..., terms)
    node: IntArray  # (...): where the pod was really bound; outside 0..nodes-1: nowhere
    present: BoolArray  # nodes that exist
    pods: FloatArray
    connections: FloatArray
    traffic_mbps: FloatArray  # received
    latency_ms: FloatArray  # to the users; NaN: unknown
    own_connections: FloatArray  # (...)
    own_traffic_mbps: FloatArray
    latency_soft_ms: FloatArray  # (...); NaN: no limit
    latency_hard_ms: FloatArray


@dataclass(frozen=True, slots=True)
class Reward:
    """Both (...): what the decision is worth, and whether it ends the episode."""

    value: FloatArray
    ends: BoolArray


RewardRule = Callable[[Outcome], Reward]

FEW_PODS = 5.0  # a node with fewer counts as unused, one with more as used
FULL_NODE_PODS = 50.0  # a used node counts as full at this many
ROUNDING = 1e-9  # taking the pod's own part off again leaves such differences between equal nodes


def cost(outcome: Outcome) -> Reward:
    """Minus the dollars until the next decision."""
    return _goes_on(0.0 - weighted_cost(outcome.terms))


def most_allocated(outcome: Outcome) -> Reward:
    """``MA`` (S1.24): int(10 x unused / n) if the node with the most pods was chosen, else 0."""
    others = _without_this_pod(outcome.pods, outcome.node, 1.0)
    unused = np.sum(outcome.pods < FEW_PODS, axis=-1, where=outcome.present)
    share = np.floor(10.0 * unused / _count(outcome.present))
    return _goes_on(np.where(_is_largest(others, outcome), share, 0.0))


def least_allocated(outcome: Outcome) -> Reward:
    """``LA`` (S1.25): +10 for the node with the fewest pods, -1 for the one with the most, which ends the episode.

    Where all are equal every node is the emptiest, and nothing ends.
    """
    others = _without_this_pod(outcome.pods, outcome.node, 1.0)
    emptiest = _is_smallest(others, outcome)
    fullest = _is_largest(others, outcome) & ~emptiest
    return Reward(np.select([emptiest, fullest], [10.0, -1.0], 0.0), fullest)


def least_connections(outcome: Outcome) -> Reward:
    """``LC`` (S1.26): 1 - min / max connections after placement, if the node with the fewest was chosen, else 0."""
    others = _without_this_pod(outcome.connections, outcome.node, outcome.own_connections)
    fewest, most = _smallest(outcome.connections, outcome.present), _largest(outcome.connections, outcome.present)
    gap = 1.0 - np.divide(fewest, most, out=np.ones(np.shape(most)), where=most > 0)
    return _goes_on(np.where(_is_smallest(others, outcome), gap, 0.0))


def latency_aware(outcome: Outcome) -> Reward:
    """``P0`` (S1.27): r1 + r2 + r3; nodes with more than 5 pods are "on".

    r1 = (n - on) / n; r2 = (pods / on) / 50, and 0 when none is on; r3 = 1, 0.5 or 0 for a latency up to the soft
    limit, up to the hard one, above both. Without limits r3 is 1; an unknown latency counts as between the two.
    """
    count = _count(outcome.present)
    on = np.sum(outcome.pods > FEW_PODS, axis=-1, where=outcome.present)
    pods = np.sum(outcome.pods, axis=-1, where=outcome.present)
    per_on = np.divide(pods, on, out=np.zeros(np.shape(pods)), where=on > 0)
    packing = (count - on) / count + per_on / FULL_NODE_PODS
    return _goes_on(np.where(_placed(outcome), packing + _latency_reward(outcome), 0.0))


def least_traffic(outcome: Outcome) -> Reward:
    """``argmin`` (S1.28): 1 if the node with the least traffic was chosen, else 0, "do not schedule" included."""
    others = _without_this_pod(outcome.traffic_mbps, outcome.node, outcome.own_traffic_mbps)
    return _goes_on(_is_smallest(others, outcome).astype(np.float64))


REWARDS: dict[str, RewardRule] = {
    "cost": cost,
    "ma": most_allocated,
    "la": least_allocated,
    "lc": least_connections,
    "p0": latency_aware,
    "argmin": least_traffic,
}


def reward_by_name(name: str) -> RewardRule:
    """A reward as configuration names it; the thesis writes its names in capitals, which is right too."""
    if name.lower() not in REWARDS:
        raise InputError(f"unknown reward {name!r}: choose one of {', '.join(REWARDS)}")
    return REWARDS[name.lower()]


# --- parts of the rewards


def _goes_on(value: FloatArray) -> Reward:
    value = np.asarray(value, dtype=np.float64)
    return Reward(value, np.zeros(value.shape, dtype=np.bool_))


def _placed(outcome: Outcome) -> BoolArray:
    return np.asarray((outcome.node >= 0) & (outcome.node < outcome.present.shape[-1]))


def _of_node(values: FloatArray, node: IntArray) -> FloatArray:
    """The value of one node, (...)."""
    inside = np.clip(node, 0, values.shape[-1] - 1)
    return np.asarray(np.take_along_axis(values, np.asarray(inside)[..., None], axis=-1)[..., 0])


def _without_this_pod(values: FloatArray, node: IntArray, own: FloatArray | float) -> FloatArray:
    here = np.arange(values.shape[-1]) == np.asarray(node)[..., None]
    return np.asarray(values - here * np.asarray(own)[..., None])


def _count(present: BoolArray) -> FloatArray:
    return np.asarray(np.maximum(present.sum(axis=-1), 1.0))


def _smallest(values: FloatArray, present: BoolArray) -> FloatArray:
    return np.asarray(np.min(values, axis=-1, where=present, initial=np.inf))


def _largest(values: FloatArray, present: BoolArray) -> FloatArray:
    return np.asarray(np.max(values, axis=-1, where=present, initial=-np.inf))


def _is_smallest(values: FloatArray, outcome: Outcome) -> BoolArray:
    """Whether no other node has less; of equal ones each is right."""
    chosen = _of_node(values, outcome.node)
    return np.asarray(_placed(outcome) & (chosen <= _smallest(values, outcome.present) + ROUNDING))


def _is_largest(values: FloatArray, outcome: Outcome) -> BoolArray:
    chosen = _of_node(values, outcome.node)
    return np.asarray(_placed(outcome) & (chosen >= _largest(values, outcome.present) - ROUNDING))


def _latency_reward(outcome: Outcome) -> FloatArray:
    soft_ms, hard_ms = outcome.latency_soft_ms, outcome.latency_hard_ms
    latency_ms = _of_node(outcome.latency_ms, outcome.node)
    unknown = np.isnan(latency_ms) & ~(np.isnan(soft_ms) & np.isnan(hard_ms))
    # Comparing with NaN is false: a limit that is not set is kept.
    return np.select([latency_ms > hard_ms, unknown | (latency_ms > soft_ms)], [0.0, 0.5], 1.0)
