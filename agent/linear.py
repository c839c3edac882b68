"""A weight for each node feature: the simplest learned scorer, and the baseline that a policy must beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.errors import InputError
from agent.features import NODE_FEATURES, Encoding, encode


@dataclass(frozen=True, slots=True)
class LinearScorer:
    """score = sum of weight x feature. What belongs to the pod alone is equal for all nodes, so it has no weight."""

    weights: FloatArray  # (node features,)
    name: str = "linear"
    needs: ClassVar[tuple[str, ...]] = ("cpu", "memory", "network")

    def rate(self, encoding: Encoding, candidates: BoolArray) -> FloatArray:
        return np.asarray(encoding.nodes @ self.weights)

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        return self.rate(encode(state, demand, candidates), candidates)


def weights_from(named: Mapping[str, float]) -> FloatArray:
    """Weights in the order of the features; those that are not named are 0."""
    unknown = sorted(set(named) - set(NODE_FEATURES))
    if unknown:
        raise InputError(f"unknown features {', '.join(unknown)}: choose from {', '.join(NODE_FEATURES)}")
    return np.array([float(named.get(name, 0.0)) for name in NODE_FEATURES])
