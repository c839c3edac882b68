"""How truth becomes a metric: counters read at intervals, a rate over a window, sometimes nothing."""

from __future__ import annotations

SMOOTHING = 0.3  # weight of the newest scrape in the observed mean of an app


def counter_rate(newest: float, oldest: float, newest_at_s: float, oldest_at_s: float) -> float:
    """``rate(counter[window])`` between the first and the last sample in the window."""
    return (newest - oldest) / (newest_at_s - oldest_at_s)


def in_window(sampled_at_s: float, queried_at_s: float, window_s: float) -> bool:
    """Prometheus looks at samples of the last ``window_s``, the end included."""
    return sampled_at_s <= queried_at_s and sampled_at_s > queried_at_s - window_s - 1e-6


def smoothed(known: float, observed: float) -> float:
    """The running mean of what was observed; the first observation stands alone."""
    if known != known:  # NaN: nothing known yet
        return observed
    return known + SMOOTHING * (observed - known)
