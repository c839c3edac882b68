"""The benchmark of the watch runs, over a small cluster."""

import pytest

from benchmarks.live import run


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_sidecar_over_a_watched_cluster_is_measured():
    bars = {bar.bar: bar for bar in run(quick=True, traces=None)}
    assert set(bars) == {"live_change_visible_s", "live_memory_mb"}
    assert all(bar.value > 0 for bar in bars.values())
    assert bars["live_memory_mb"].beside["pods"] == 1000
