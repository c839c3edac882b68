"""Raw scores to the eleven levels of a scheduler extender.

kube-scheduler takes integers from 0 to 10 from an extender and adds other plugins' scores to them. Two levels must
never disagree with the raw order, and the best node must stay alone at the top, or other plugins choose for us.

What is lost should be lost where it costs nothing. By value (min to max in equal steps) one very bad node pushes all
others into one level. By equal groups of nodes the second level of a large cluster holds hundreds of nodes, most far
worse than the second best. So a level here is a constant factor of rank: fine at the top, where the choice is made,
and coarse at the bottom, where nobody is chosen. With other plugins' scores as noise this keeps our first choice more
often than either, unless a few nodes are far better than all others (a test shows it for 200 nodes).
"""

from __future__ import annotations

import numpy as np

from agent.cluster import BoolArray, FloatArray, IntArray
from agent.scorer import masked_median

TOP_LEVEL = 10
ROUNDING = 1e-9  # a ratio that is a whole number must not be lifted to the next level


def quantise(values: FloatArray, candidates: BoolArray) -> IntArray:
    """Levels 0 to 10 by order: 10 - ceil(10 x ln(1 + nodes that are better) / ln(candidates)).

    The best is 10, and alone there if its value is unique; equal values get equal levels; the order is never
    inverted. A NaN counts as the median of the others. Nodes that are no candidates get 0.
    """
    better = _count_better(_filled(values, candidates))
    count = np.maximum(candidates.sum(axis=-1), 2)[..., None]
    steps = np.log1p(better)
    steps *= TOP_LEVEL / np.log(count)
    np.ceil(steps - ROUNDING, out=steps)
    levels = TOP_LEVEL - np.minimum(steps, TOP_LEVEL).astype(np.int64)
    return np.where(candidates, levels, 0)


def neutral_level(levels: IntArray, candidates: BoolArray) -> int:
    """The level of a node that nobody could score, among those of one cluster: in the middle, and no rival of the best.

    A best that is alone at the top stays alone there; a single candidate is best of nothing, and gets an equal.
    """
    ordered = np.sort(levels[candidates])
    if len(ordered) < 2:
        return int(ordered.max(initial=0))
    middle, alone = int(ordered[(len(ordered) - 1) // 2]), bool(ordered[-1] > ordered[-2])
    return min(middle, int(ordered[-1]) - 1) if alone else middle


def quantise_percent(values: FloatArray, candidates: BoolArray) -> IntArray:
    """Levels 0 to 10 of scores from 0 to 100, by value: 60 is 6, 94 is 9, 100 is 10.

    For a formula whose scores mean something by themselves. If the best shares its level with a lower score it moves
    up by one, or the others down from 10, so that it stays alone; the order is never inverted.
    """
    filled = _filled(values, candidates)
    levels = np.floor(np.clip(filled, 0.0, 100.0) / 10.0).astype(np.int64)
    best = np.max(filled, axis=-1, where=candidates, initial=-np.inf)[..., None]
    is_best = filled == best
    best_level = np.max(levels, axis=-1, where=candidates, initial=0)[..., None]
    crowded = np.any((levels == best_level) & ~is_best & candidates, axis=-1)[..., None]
    lifted = np.minimum(best_level + crowded, TOP_LEVEL)
    levels = np.where(is_best, lifted, np.minimum(levels, np.where(crowded, lifted - 1, TOP_LEVEL)))
    return np.where(candidates, levels, 0)


def _filled(values: FloatArray, candidates: BoolArray) -> FloatArray:
    """Numbers everywhere: the median for NaN, and last place for nodes that are no candidates."""
    unknown = np.isnan(values)
    filled = np.where(candidates, values, -np.inf)
    if unknown.any():
        median = masked_median(values, candidates & ~unknown)[..., None]
        np.copyto(filled, median, where=candidates & unknown)
    return filled


def _count_better(values: FloatArray) -> IntArray:
    """For each value, how many are larger."""
    order = np.argsort(-values, axis=-1)
    one_cluster = values.ndim == 1  # plain indices cost a fraction of the general form
    ordered = values[order] if one_cluster else np.take_along_axis(values, order, axis=-1)
    place = np.zeros(values.shape, dtype=np.int64)
    # The first of a run of equal values has as many better ones as its place; the others of the run copy it.
    place[..., 1:] = np.arange(1, values.shape[-1]) * (ordered[..., 1:] != ordered[..., :-1])
    np.maximum.accumulate(place, axis=-1, out=place)
    better = np.empty_like(place)
    if one_cluster:
        better[order] = place
    else:
        np.put_along_axis(better, order, place, axis=-1)
    return better
