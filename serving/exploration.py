"""Exploration when serving, off unless somebody asks for it: some pods get a random order of their feasible nodes.

A policy that only ever sees its own choices cannot learn what others would have done. Whether a pod explores is drawn
from its UID, so that repeated calls for one pod agree and the share of pods is the one that was set.
"""

from __future__ import annotations

import zlib

import numpy as np

from agent.cluster import BoolArray
from agent.scorer import Scores

SOURCE = "exploration"
_DRAWS = 2**32


class Exploration:
    def __init__(self, share: float = 0.0) -> None:
        self._share = share

    def scores(self, key: str, candidates: BoolArray) -> Scores | None:
        """A random order of the nodes if this pod explores; a question without a key never does."""
        if not key or not candidates.any() or _drawn(f"whether/{key}") >= self._share * _DRAWS:
            return None
        order = np.random.default_rng(_drawn(f"order/{key}")).random(candidates.shape)
        return Scores(order, SOURCE, f"drawn for exploration, like {self._share:.2%} of all pods")


def _drawn(text: str) -> int:
    return zlib.crc32(text.encode())
