from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from agent.errors import InputError
from envs.workloads.calibration import (
    PUBLISHED,
    calibrate,
    correlation_time_s,
    index_of_dispersion,
    log_normal,
    top_share,
)

PAGE = Path(__file__).parents[3] / "docs" / "traces.md"


@pytest.fixture(scope="module")
def documented() -> dict[str, float]:
    rows = re.findall(r"^\| `([a-z0-9_.]+)` \| ([^ |]+) \|", PAGE.read_text(), re.MULTILINE)
    return {name: float(value) for name, value in rows}


def test_log_normal_finds_the_parameters_it_was_drawn_from() -> None:
    values = np.random.default_rng(0).lognormal(np.log(5), 1.5, 100_000)
    figures = log_normal(np.append(values, 0.0), "x", "mbps")  # zeros have no logarithm
    assert figures["x.lognormal_median_mbps"] == pytest.approx(5, rel=0.02)
    assert figures["x.lognormal_sigma"] == pytest.approx(1.5, rel=0.02)


def test_top_share_of_equal_and_of_one_sided_values() -> None:
    assert top_share(np.ones(50)) == pytest.approx(0.1)
    assert top_share(np.append(np.zeros(19), 1.0)) == 1.0


def test_correlation_time_of_a_first_order_process() -> None:
    rng, decay = np.random.default_rng(0), np.exp(-1 / 20)  # 20 steps
    series = np.zeros((50_000, 2))
    noise = rng.normal(size=series.shape)
    for i in range(1, len(series)):
        series[i] = decay * series[i - 1] + noise[i]
    assert correlation_time_s(series, 3.0) == pytest.approx([60, 60], rel=0.15)


def test_correlation_time_of_a_short_series_does_not_wrap_round() -> None:
    ramp = np.arange(20.0) - 9.5
    by_definition = np.correlate(ramp, ramp, "full")[19:] / (ramp @ ramp)
    after = int(np.argmax(by_definition < 1 / np.e))
    assert after - 1 < correlation_time_s(ramp[:, None], 1.0)[0] < after


def test_constant_series_has_no_correlation_time() -> None:
    assert np.isnan(correlation_time_s(np.ones((10, 1)), 1.0)[0])


def test_dispersion_is_one_for_independent_arrivals_and_the_group_size_for_groups() -> None:
    arrivals_s = np.random.default_rng(0).uniform(0, 100_000, 50_000)
    assert index_of_dispersion(arrivals_s, 10) == pytest.approx(1, rel=0.05)
    assert index_of_dispersion(np.repeat(arrivals_s, 8), 10) == pytest.approx(8, rel=0.05)


def test_figures_of_the_tiny_traces_are_those_computed_by_hand(tiny: Path) -> None:
    figures = calibrate(tiny)
    expected = {
        "bitbrains.cpu_use_ratio.mean": (0.36 + 0.525) / 2,
        "bitbrains.traffic.mean_mbps": (750 / 4 + 9 / 4) * 8 / 1_000 / 2,
        "onlineboutique.cpu_limit_ratio.mean": 0.11,
        "zhejiang.idle_share": 0.5,
        "zhejiang.nic_use_ratio.max": 0.2,
        "rtt.between_zones.max_ms": 1.2,
        "rtt.between_regions.min_ms": 102,
        "dlrm.initial_share": 0.4,
        "dlrm.lifetime_s.p50": 450,
        "dlrm.arrivals.same_app_within_60_s.mean": 1.5,
        "openb.shared_gpu_share": 1 / 3,
        "openb.cpu_request_millicores.p50": 6_000,
    }
    assert {name: figures[name] for name in expected} == pytest.approx(expected)


def test_every_figure_is_documented(tiny: Path, documented: dict[str, float]) -> None:
    assert set(calibrate(tiny)) <= set(documented)
    assert {name: documented[name] for name in PUBLISHED} == PUBLISHED


@pytest.mark.slow
def test_documented_figures_are_those_of_the_real_traces(traces: Path, documented: dict[str, float]) -> None:
    measured = {name: float(f"{value:.4g}") for name, value in calibrate(traces).items()}
    assert {name: value for name, value in documented.items() if name not in PUBLISHED} == measured


def test_missing_parts_are_left_out_and_nothing_at_all_is_an_error(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "latency").mkdir()
    for path in (tiny / "latency").iterdir():
        (tmp_path / "latency" / path.name).write_bytes(path.read_bytes())
    assert {name.split(".")[0] for name in calibrate(tmp_path)} == {"rtt"}
    with pytest.raises(InputError, match="holds no trace; expected any of bitbrains"):
        calibrate(tmp_path / "latency")
    with pytest.raises(InputError, match="no such folder"):
        calibrate(tmp_path / "nowhere")
