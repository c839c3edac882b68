"""Random numbers in the shapes that scenarios speak of."""

from __future__ import annotations

import math

import numpy as np

from agent.cluster import FloatArray
from envs.workloads.scenario import Amount, CutLogNormal, Loads, LogNormal

Rng = np.random.Generator


def wander(steps: int, width: int, forget: float | FloatArray, rng: Rng) -> FloatArray:
    """Standard normal series that lose memory at the given rate per step, one for all or one for each."""
    keep = np.exp(-forget) if isinstance(forget, np.ndarray) else math.exp(-forget)
    fresh = rng.standard_normal((steps, width)) * np.sqrt(1.0 - keep**2)
    fresh[0] /= np.sqrt(1.0 - keep**2)
    for step in range(1, steps):
        fresh[step] += keep * fresh[step - 1]
    return fresh


def with_peaks(app_load: FloatArray, loads: Loads, rng: Rng) -> FloatArray:
    """The same with sudden peaks of single apps."""
    peaks = rng.random(app_load.shape) < loads.spikes_per_hour * loads.step_s / 3600.0
    return np.where(peaks, app_load * loads.spike_factor, app_load)


def draw(amount: Amount, count: int, rng: Rng) -> FloatArray:
    if isinstance(amount, CutLogNormal):
        return np.minimum(lognormal(amount, count, rng), amount.most)
    return rng.uniform(amount.low, amount.high, count)


def lognormal(shape: LogNormal, count: int, rng: Rng) -> FloatArray:
    return np.asarray(shape.median * np.exp(shape.sigma * rng.standard_normal(count)))


def with_mean(shape: LogNormal, weights: FloatArray, rng: Rng) -> FloatArray:
    """Few heavy-tailed draws miss their mean widely; scaled to meet it, every episode has the load it should."""
    values = lognormal(shape, len(weights), rng)
    return np.asarray(values * mean_of(shape) / (values @ weights))


def mean_of(shape: LogNormal) -> float:
    return shape.median * math.exp(shape.sigma**2 / 2.0)
