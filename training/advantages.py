"""How good each decision was: returns discounted by time, the pods' own account, and what the group did.

A scenario's decisions lie in arrays (steps, clusters): row s holds decision s of every cluster that had one.
stable-baselines3 discounts by decision, with one number; decisions are not evenly spaced in time, and a pod lives for
minutes however many others arrive meanwhile, so here the discount of a step is exp(-elapsed / horizon).
"""

from __future__ import annotations

import numpy as np

from agent.cluster import BoolArray, FloatArray, IntArray


def discount_of(elapsed_s: FloatArray, horizon_s: float) -> FloatArray:
    return np.asarray(np.exp(-elapsed_s / horizon_s))


def time_discounted(
    rewards: FloatArray,
    values: FloatArray,
    last_values: FloatArray,
    elapsed_s: FloatArray,
    active: BoolArray,
    horizon_s: float,
    trace_s: float,
) -> FloatArray:
    """Generalised advantages, (steps, clusters): errors of the critic, fading with ``trace_s`` and ``horizon_s``.

    ``last_values`` (clusters,) is what the critic expects after the horizon cut the episode off: it did not end there.
    """
    steps = len(rewards)
    discount, fade = discount_of(elapsed_s, horizon_s), discount_of(elapsed_s, trace_s)
    advantages = np.zeros_like(rewards)
    following, value_after = np.zeros(rewards.shape[1]), last_values.astype(np.float64)
    for step in range(steps - 1, -1, -1):
        now = active[step]
        error = rewards[step] + discount[step] * value_after - values[step]
        advantages[step] = np.where(now, error + discount[step] * fade[step] * following, 0.0)
        following = np.where(now, advantages[step], following)
        value_after = np.where(now, values[step], value_after)
    return advantages


def beyond_group(values: FloatArray, key: IntArray) -> FloatArray:
    """Each value minus the mean of the others with its key; 0 for who has no others.

    The members of a group meet the same pods, so a key that names the pod leaves what the choice made of it.
    """
    _, place = np.unique(key, return_inverse=True)
    count = np.bincount(place)[place]
    total = np.bincount(place, weights=values)[place]
    others = np.maximum(count - 1, 1)
    return np.where(count > 1, values - (total - values) / others, 0.0)


def occurrence(key: IntArray) -> IntArray:
    """How often the key came before in the array: a pod that was killed is decided about again."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    first = np.r_[0, np.flatnonzero(np.diff(ordered)) + 1]
    start = np.repeat(first, np.diff(np.r_[first, len(ordered)]))
    result = np.empty(len(key), dtype=np.int64)
    result[order] = np.arange(len(key)) - start
    return result


def scaled(advantages: FloatArray, limit: float) -> FloatArray:
    """Of spread 1, so that no scenario outweighs another; single outliers limited."""
    spread = float(np.sqrt(np.mean(np.square(advantages))))
    return np.clip(advantages / max(spread, 1e-12), -limit, limit)


def worth_learning(advantages: FloatArray, least: float, share: float, rng: np.random.Generator) -> IntArray:
    """Rows of the decisions that mattered, and a share of the others: most pods are small and fit anywhere."""
    mattered = np.abs(advantages) >= least
    return np.flatnonzero(mattered | (rng.random(len(advantages)) < share))
