"""The dynamics against measurements that set no generator: Nezha's injected faults."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent.errors import InputError
from envs.workloads.nezha import PODS_FILES
from envs.workloads.nezha_faults import main, throttling

PAGE = (Path(__file__).parents[3] / "docs" / "traces.md").read_text(encoding="utf-8")
START_S = 1_600_000_000
MINUTES = 11
FAULT_MINUTE = 5  # the fault comes half a minute after this sample


def write_system(folder: Path, file: str, requests_after: float, cpu_after_percent: float = 100.0) -> None:
    """One pod: 10 requests a second at 5 % of its limit; from the fault on as given, its answers ten times as late."""
    path = folder / file.removesuffix(".gz")
    path.parent.mkdir(exist_ok=True)
    columns = "ts,service,cpu_m,cpu_pct_of_limit,mem_mib,mem_pct_of_limit,rx_Bps,tx_Bps,server_p90_s,server_p99_s,ops"
    lines = [f"{columns},node_cpu_pct,node_mem_pct"]
    for minute in range(MINUTES):
        contended = minute > FAULT_MINUTE
        cpu, requests = (cpu_after_percent, requests_after) if contended else (5.0, 10.0)
        p90_s = 0.1 if contended else 0.01
        lines.append(f"{START_S + 60 * minute},cart,10,{cpu},10,10,1,1,{p90_s},{p90_s},{requests},10,10")
    path.write_text("\n".join(lines) + "\n")
    path.rename(folder / file)  # the reader goes by the content
    faults = (
        f"ts,service,fault_type\n{START_S + 60 * FAULT_MINUTE + 30},cart,cpu_contention\n{START_S + 60},cart,return\n"
    )
    (folder / file.replace("_pods.csv.gz", "_faults.csv")).write_text(faults)


def test_a_contended_pod_is_compared_with_itself_before_the_fault(tmp_path: Path) -> None:
    for file, after in zip(PODS_FILES, (4.0, 8.0), strict=True):
        write_system(tmp_path, file, after)
    assert throttling(tmp_path) == pytest.approx(
        {
            "onlineboutique.above_limit_share": 0.0,
            "trainticket.above_limit_share": 0.0,
            "faults": 2,  # other kinds of faults say nothing of throttling
            "cpu_limit_ratio.before.p50": 0.05,
            "cpu_limit_ratio.peak.p50": 1.0,
            "served.pods": 2,
            "served.p50": 0.6,
            "served.least": 0.4,
            "served.most": 0.8,
            "p90_times.p50": 10.0,
        }
    )


def test_use_above_the_limit_would_be_seen(tmp_path: Path) -> None:
    for file in PODS_FILES:
        write_system(tmp_path, file, 4.0, cpu_after_percent=130.0)
    assert throttling(tmp_path)["trainticket.above_limit_share"] == pytest.approx(5 / MINUTES)


def test_the_command_prints_every_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in PODS_FILES:
        write_system(tmp_path, file, 4.0)
    main(tmp_path)
    assert "served.p50: 0.4\n" in capsys.readouterr().out


def test_without_a_busy_pod_there_is_nothing_to_learn(tmp_path: Path) -> None:
    for file in PODS_FILES:
        write_system(tmp_path, file, 4.0)
        (tmp_path / file.replace("_pods.csv.gz", "_faults.csv")).write_text("ts,service,fault_type\n1,cart,return\n")
    with pytest.raises(InputError, match="no pod with a fault cpu_contention"):
        throttling(tmp_path)


@pytest.mark.slow
def test_the_page_states_what_the_real_faults_show(traces: Path) -> None:
    rows = re.findall(r"^\| `throttling\.([a-z0-9_.]+)` \| ([^ |]+) \|", PAGE, re.MULTILINE)
    found = {name: float(f"{value:.4g}") for name, value in throttling(traces).items()}
    assert {name: float(value) for name, value in rows} == found


def test_what_the_page_states_is_what_the_rule_of_contention_says() -> None:
    """Use stops at the limit, and what cannot be carried is not served."""
    rows = re.findall(r"^\| `throttling\.([a-z0-9_.]+)` \| ([^ |]+) \|", PAGE, re.MULTILINE)
    figures = {name: float(value) for name, value in rows}
    assert figures["cpu_limit_ratio.peak.p50"] == pytest.approx(1.0, abs=0.05)
    assert max(figures["onlineboutique.above_limit_share"], figures["trainticket.above_limit_share"]) < 0.01
    assert figures["served.most"] < 1.0
