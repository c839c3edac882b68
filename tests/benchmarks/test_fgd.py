from __future__ import annotations

from pathlib import Path

import pytest

from agent.errors import InputError
from benchmarks import fgd
from benchmarks.fgd import Cell, Published, read_published, run, write_page
from benchmarks.report import Origin

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{i},64000,262144,4,T4\n" for i in range(20))
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,4000,1024,1,1000\nb,2000,1024,1,1000\nc,2000,1024,0,0\n"
SUMMARY = """workload,policy,arrived_gpu_pct,n_seeds,unalloc_gpu_pct_mean,unalloc_gpu_pct_sd
tiny,Random,90,10,14.0,0.3
tiny,Random,100,10,0.5,0.2
tiny,GpuPacking,100,10,8.2,0.5
tiny,FGD,100,10,0.5,0.1
other,BestFit,100,10,7.0,0.2
"""


@pytest.fixture
def tiny_traces(tmp_path: Path) -> Path:
    folder = tmp_path / "openb"
    folder.mkdir()
    (folder / "openb_node_list_gpu_node.csv").write_text(NODES)
    (folder / "openb_pod_list_tiny.csv").write_text(PODS)
    (folder / "fgd_published_summary.csv").write_text(SUMMARY)
    return tmp_path


def cell(ours: float, mean: float, sd: float) -> Cell:
    return Cell(Published("list", "FGD", mean, sd), (ours - 0.25, ours + 0.25))


def test_published_rows_are_those_of_our_policies_at_full_arrival(tiny_traces: Path) -> None:
    found = read_published(tiny_traces / "openb/fgd_published_summary.csv")
    assert [(row.workload, row.policy, row.mean_percent) for row in found] == [
        ("tiny", "Random", 0.5),
        ("tiny", "FGD", 0.5),
        ("other", "BestFit", 7.0),
    ]


@pytest.mark.parametrize(
    ("ours", "mean", "sd", "counted"),
    [
        (5.5, 5.0, 0.1, 0.5),
        (6.5, 5.0, 0.1, 1.5),  # beyond both tolerances: the whole deviation
        (6.5, 5.0, 0.6, 1.0),  # within 3 published standard deviations
        (3.5, 5.0, 0.1, 1.5),
    ],
)
def test_deviation_within_three_standard_deviations_counts_as_met(ours, mean, sd, counted) -> None:
    assert cell(ours, mean, sd).counted_points == pytest.approx(counted)


def test_quick_run_measures_the_first_list_and_writes_no_page(tiny_traces: Path, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fgd, "PAGE", tmp_path / "page.md")
    deviation, minutes = run(quick=True, traces=tiny_traces)
    assert (deviation.bar, minutes.bar) == ("max_deviation_points", "minutes")
    assert deviation.beside["cells"] == 2
    assert deviation.met
    assert not (tmp_path / "page.md").exists()


def test_full_run_refuses_a_list_that_is_not_there(tiny_traces: Path) -> None:
    with pytest.raises(InputError, match=r"no openb_pod_list_other\.csv or openb_pod_list_other\.csv\.gz"):
        run(quick=False, traces=tiny_traces)


def test_folder_itself_may_be_given(tiny_traces: Path) -> None:
    assert run(quick=True, traces=tiny_traces / "openb")


def test_missing_folder_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs the folder with the public traces: --traces DIR"):
        run(quick=True, traces=None)
    with pytest.raises(InputError, match="no openb/fgd_published_summary"):
        run(quick=True, traces=tmp_path)


def test_page_shows_ours_beside_the_published(tmp_path: Path) -> None:
    page = tmp_path / "deep" / "page.md"
    write_page([cell(5.5, 5.0, 0.1)], Origin("2026-01-02", "abc", 2), page)
    assert "| list | fgd | 5.50 | 0.25 | 5.00 | 0.10 | +0.50 |" in page.read_text()
    assert "`pilotfish benchmark fgd --traces DIR`: 2026-01-02, commit abc, 2 cores;" in page.read_text()
