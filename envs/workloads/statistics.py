"""How a trace or a world is put into numbers; the same functions measure both, so that the numbers can be compared."""

from __future__ import annotations

import numpy as np

from agent.cluster import FloatArray

Figures = dict[str, float]


def log_normal(values: FloatArray, name: str, unit: str) -> Figures:
    """Median and log standard deviation of the positive values: how a heavy tail is drawn."""
    logs = np.log(values[values > 0])
    return {f"{name}.lognormal_median_{unit}": np.exp(logs.mean()), f"{name}.lognormal_sigma": logs.std()}


def top_share(values: FloatArray, share: float = 0.1) -> float:
    """Part of the sum that belongs to the largest ``share`` of the values."""
    ordered = np.sort(values)[::-1]
    return float(ordered[: max(round(share * len(ordered)), 1)].sum() / ordered.sum())


def index_of_dispersion(arrival_s: FloatArray, window_s: float) -> float:
    """Variance over mean of the arrivals per window: 1 for a Poisson process, more for bursts."""
    first, last = arrival_s.min(), arrival_s.max()
    counts = np.bincount(((arrival_s - first) // window_s).astype(np.int64))[: max(int((last - first) // window_s), 1)]
    return float(counts.var() / counts.mean())


def spread(values: FloatArray, name: str) -> Figures:
    known = values[np.isfinite(values)]
    return {f"{name}.p50": np.median(known), f"{name}.p90": np.quantile(known, 0.9)}


def over_time(series: FloatArray, name: str, step_s: float) -> Figures:
    """How one column varies around its own mean; columns that are always zero say nothing."""
    moving = series[:, series.mean(axis=0) > 0]
    mean = moving.mean(axis=0)
    return {
        **spread(moving.std(axis=0) / mean, f"{name}.cv"),
        **spread(np.quantile(moving, 0.99, axis=0) / mean, f"{name}.p99_to_mean"),
        **spread(correlation_time_s(moving, step_s), f"{name}.correlation_time_s"),
    }


def correlation_time_s(series: FloatArray, step_s: float) -> FloatArray:
    """Per column: the first lag at which the autocorrelation is below 1/e, interpolated."""
    centred = series - series.mean(axis=0)
    size = 2 * len(series)  # zero padding, so that the end does not wrap round to the start
    power = np.abs(np.fft.rfft(centred, size, axis=0)) ** 2
    correlation = np.fft.irfft(power, size, axis=0)[: len(series)]
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = correlation / correlation[0]
    return np.array([_crossing(column) for column in correlation.T]) * step_s


def correlations(a: FloatArray, b: FloatArray) -> FloatArray:
    """Of each column of ``a`` with the same column of ``b``; NaN where one never moves."""
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((a * b).mean(axis=0) / (a.std(axis=0) * b.std(axis=0)), dtype=np.float64)


def _crossing(correlation: FloatArray) -> float:
    below = np.flatnonzero(correlation < 1 / np.e)
    if not len(below):
        return float("nan")  # a constant column has no correlation
    after = int(below[0])
    before = after - 1
    return float(before + (correlation[before] - 1 / np.e) / (correlation[before] - correlation[after]))
