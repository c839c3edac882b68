"""A random order: the baseline that every scorer has to beat, and which some beat less than one thinks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray


@dataclass(frozen=True, slots=True)
class Random:
    """From no system. Formula: 100 x a uniform draw of [0, 1), one per node.

    The generator is passed in, so that a run can be repeated; a generator made here starts from seed 0.
    """

    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    name: ClassVar[str] = "random"
    needs: ClassVar[tuple[str, ...]] = ()

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        values = self.rng.random(candidates.shape)
        values *= 100.0
        return values
