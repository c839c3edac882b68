"""Stretch scores to the highest, as a NormalizeScore of kube-scheduler's scheduling framework does."""

from __future__ import annotations

import numpy as np

from agent.cluster import BoolArray, FloatArray


def normalise_to_highest(values: FloatArray, candidates: BoolArray) -> FloatArray:
    """Scores x 100 / the candidates' highest; all 0 where the highest is not above 0. NaN stays NaN."""
    highest = np.fmax.reduce(values, axis=-1, where=candidates, initial=0.0)[..., None]
    scale = np.divide(100.0, highest, out=np.zeros_like(highest), where=highest > 0)
    return np.asarray(values * scale)
