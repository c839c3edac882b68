"""The figures of real clusters: computed right, kept in one file, and documented as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from agent.errors import InputError
from envs.workloads.calibration import FIGURES_FILE, calibrate, known_figures

PAGE = (Path(__file__).parents[3] / "docs" / "traces.md").read_text(encoding="utf-8")


def test_page_shows_every_figure_that_is_kept() -> None:
    rows = re.findall(r"^\| `([a-z0-9_.]+)` \| ([^ |]+) \|", PAGE.partition("### Measured")[2], re.MULTILINE)
    assert {name: float(value) for name, value in rows} == known_figures()


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


def test_every_figure_of_a_trace_is_kept(tiny: Path) -> None:
    assert set(calibrate(tiny)) <= set(known_figures())


@pytest.mark.slow
def test_measured_figures_are_those_of_the_real_traces(traces: Path) -> None:
    kept = yaml.safe_load(FIGURES_FILE.read_text(encoding="utf-8"))["measured"]
    assert {name: float(f"{value:.4g}") for name, value in calibrate(traces).items()} == kept


def test_missing_parts_are_left_out_and_nothing_at_all_is_an_error(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "latency").mkdir()
    for path in (tiny / "latency").iterdir():
        (tmp_path / "latency" / path.name).write_bytes(path.read_bytes())
    assert {name.split(".")[0] for name in calibrate(tmp_path)} == {"rtt"}
    with pytest.raises(InputError, match="holds no trace; expected any of bitbrains"):
        calibrate(tmp_path / "latency")
    with pytest.raises(InputError, match="no such folder"):
        calibrate(tmp_path / "nowhere")
