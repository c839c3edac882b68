"""Confidence intervals of means, and of paired differences."""

from __future__ import annotations

import math

import numpy as np

from agent.cluster import FloatArray

Z_95 = 1.959964


def half_width_95(values: FloatArray) -> float:
    """Half width of the 95 % interval of the mean (normal approximation; episodes are independent)."""
    if len(values) < 2:
        return math.nan
    return float(Z_95 * np.std(values, ddof=1) / math.sqrt(len(values)))


def paired_difference(values: FloatArray, baseline: FloatArray) -> tuple[float, float]:
    """Mean of values - baseline over the same episodes, and the half width of its 95 % interval."""
    difference = values - baseline
    return float(difference.mean()), half_width_95(difference)
