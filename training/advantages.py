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


def without_favour(
    own: FloatArray, probability: FloatArray, bound: IntArray, explored: BoolArray, key: IntArray
) -> FloatArray:
    """Accounts that are fair to the nodes that were not chosen, (decisions, nodes).

    Later pods made room for this one where it is, and its siblings came near; on another node they would have done
    the same, but the account of that node does not know. Members of the group that took other nodes for the same pod
    show how large that favour is, in the mean and in proportion to what is at stake for a pod.
    """
    rows = np.arange(len(own))
    actual = own[rows, bound]
    stake = np.sqrt(np.maximum((probability * own**2).sum(axis=1) - (probability * own).sum(axis=1) ** 2, 0.0))
    others = _chosen_by_others(bound, key, own.shape[1])
    count = others.sum(axis=1)
    by_account = actual - (others * own).sum(axis=1) / np.maximum(count, 1)
    favour = beyond_group(actual, key) - by_account
    elsewhere = 1.0 - others[rows, bound] / np.maximum(count, 1)  # only those that went elsewhere can show it
    known = explored & (count > 0)
    share = favour[known].sum() / max(float((stake * elsewhere)[known].sum()), 1e-12)
    fair = own.copy()
    fair[rows, bound] += max(share, 0.0) * stake
    return fair


def _chosen_by_others(bound: IntArray, key: IntArray, nodes: int) -> FloatArray:
    """How many other members of the group took each node for the same pod, (decisions, nodes)."""
    _, place = np.unique(key, return_inverse=True)
    count = np.zeros((place.max() + 1, nodes))
    np.add.at(count, (place, bound), 1.0)
    others = count[place]
    others[np.arange(len(bound)), bound] -= 1.0
    return np.asarray(others)


def spread_of(advantages: FloatArray, probability: FloatArray, drawn: FloatArray) -> float:
    """Usual size of what is at stake in a decision, so that no scenario outweighs another."""
    return max(float(np.sqrt(_squares(advantages, probability).mean() + np.square(drawn).mean())), 1e-12)


def worth_learning(advantages: FloatArray, drawn: FloatArray, probability: FloatArray, least: float) -> IntArray:
    """Rows of the decisions at which something was at stake: most pods are small and fit anywhere."""
    return np.flatnonzero(_squares(advantages, probability) + np.square(drawn) >= least**2)


def _squares(advantages: FloatArray, probability: FloatArray) -> FloatArray:
    """Mean square of the nodes' advantages under the policy, (decisions,)."""
    return np.asarray((probability * np.square(advantages)).sum(axis=1))
