"""What every scorer is: a name, the metrics it cannot do without, and one number per node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.features import Encoding

# The metric groups of ClusterState that can be missing or stale.
METRIC_GROUPS = ("cpu", "memory", "network")


class ScoringUnavailable(Exception):
    """This scorer cannot answer now; the message says why, the ladder takes the next step."""


class OutOfRange(ScoringUnavailable):
    """The scorer is sound, but this cluster is unlike those it was made for: no failure, only a modest silence."""


class Scorer(Protocol):
    """Higher is better. Values of nodes that are no candidates mean nothing.

    ``score`` works on the last axis, so one call serves one cluster or a batch of them. A node whose own
    metric is missing may come out as NaN: ``neutral_where_missing`` then holds it at its peers' median.
    """

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> tuple[str, ...]:
        """Metric groups (METRIC_GROUPS) without which the answer means nothing."""
        ...

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        """One value per node, ``(..., nodes)``."""
        ...


@runtime_checkable
class FeatureScorer(Scorer, Protocol):
    """A scorer that reads nothing but features: where they are at hand already, ``rate`` takes them as they are."""

    def rate(self, encoding: Encoding, candidates: BoolArray) -> FloatArray:
        """One value per node, ``(..., nodes)``."""
        ...


@dataclass(frozen=True, slots=True)
class Scores:
    """An answer: values per node, who gave it, and why not a better one."""

    values: FloatArray
    source: str
    reason: str = ""


def missing_metrics(state: ClusterState, needs: tuple[str, ...], stale_after_s: float) -> BoolArray:
    """Nodes for which some needed metric group is missing or older than the limit."""
    missing = np.zeros(state.cpu_allocatable_millicores.shape, dtype=np.bool_)
    for group in needs:
        age_s: FloatArray = getattr(state, f"{group}_age_s")
        missing |= ~(age_s <= stale_after_s)
    return missing


def neutral_where_missing(values: FloatArray, candidates: BoolArray, missing: BoolArray) -> FloatArray:
    """Hold nodes without a usable value at the median of the others: never best, never worst."""
    usable = candidates & ~missing & np.isfinite(values)
    held = candidates & ~usable
    if not held.any():
        return values
    return np.where(held, masked_median(values, usable)[..., None], values)


def held_scores(
    scorer: Scorer, state: ClusterState, demand: Demand, candidates: BoolArray, stale_after_s: float
) -> FloatArray:
    """The scorer's values as the sidecar uses them: nodes without usable metrics held neutral."""
    values = scorer.score(state, demand, candidates)
    return neutral_where_missing(values, candidates, missing_metrics(state, scorer.needs, stale_after_s))


def masked_median(values: FloatArray, mask: BoolArray) -> FloatArray:
    """Median along the last axis of the values under the mask; 0 where the mask is empty."""
    count = mask.sum(axis=-1)
    ordered = np.sort(np.where(mask, values, np.inf), axis=-1)
    low = np.maximum((count - 1) // 2, 0)[..., None]
    high = np.maximum(count // 2, 0)[..., None]
    high = np.minimum(high, values.shape[-1] - 1)
    middle = 0.5 * (np.take_along_axis(ordered, low, -1) + np.take_along_axis(ordered, high, -1))[..., 0]
    return np.where(count > 0, middle, 0.0)
