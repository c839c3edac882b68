from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agent.errors import InputError
from envs.workloads.nezha import (
    CALLS_FILE,
    EDGES_FILE,
    PLACEMENT_FILE,
    PODS_FILES,
    PodMetrics,
    app_load,
    read_calls,
    read_edges,
    read_placement,
    read_pod_metrics,
)


@pytest.fixture
def metrics(tiny: Path) -> PodMetrics:
    return read_pod_metrics(tiny / PODS_FILES[0])


def test_samples_of_one_scrape_share_a_step(metrics: PodMetrics) -> None:
    assert metrics.services == ("cart", "front", "idle")
    assert metrics.requests_per_s.tolist() == [[10, 5, 0], [20, 5, 0], [30, 5, 0]]  # front is a second late
    assert metrics.rx_mbps[:, 0].tolist() == pytest.approx([1, 2, 3])
    assert metrics.cpu_limit_ratio[2, 1] == pytest.approx(0.12)


def test_latency_of_a_service_without_calls_stays_unknown(metrics: PodMetrics) -> None:
    assert np.isnan(metrics.server_p90_ms[:, 2]).all()
    assert metrics.server_p90_ms[0, 0] == pytest.approx(5)


def test_app_load_has_mean_one_and_uses_traffic_where_there_are_no_requests(metrics: PodMetrics) -> None:
    series = app_load(metrics, 3, 120, np.random.default_rng(0))
    np.testing.assert_allclose(series.load.mean(axis=0), 1)
    shapes = {tuple(np.round(column, 6)) for column in series.load.T}
    assert shapes == {(0.5, 1.0, 1.5), (1.0, 1.0, 1.0), (0.666667, 1.0, 1.333333)}


def test_call_graph_placement_and_edges(tiny: Path) -> None:
    assert read_calls(tiny / CALLS_FILE) == (("front", "cart"), ("front", "idle"))
    assert read_placement(tiny / PLACEMENT_FILE) == {"cart": "node-04", "front": "node-02"}
    edges = read_edges(tiny / EDGES_FILE)
    assert edges.p50_ms[0] == pytest.approx(5)
    assert np.isnan(edges.p50_ms[1])


def test_stray_time_does_not_ask_for_a_huge_grid(tiny: Path, tmp_path: Path) -> None:
    import gzip

    text = gzip.decompress((tiny / PODS_FILES[0]).read_bytes()).decode().replace("1600000279", "1000000279", 1)
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(InputError, match="column 'ts' spans"):
        read_pod_metrics(tmp_path / "x.csv")
