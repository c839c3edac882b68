from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agent.errors import InputError
from envs.workloads.bitbrains import (
    SERIES_FILE,
    VMS_FILE,
    VmTrace,
    background_from_bitbrains,
    read_bitbrains,
    read_bitbrains_upstream,
)


@pytest.fixture
def trace(tiny: Path) -> VmTrace:
    return read_bitbrains(tiny / SERIES_FILE, tiny / VMS_FILE)


def test_cut_form_has_one_column_per_vm_in_known_units(trace: VmTrace) -> None:
    assert trace.vms == ("7", "9")
    assert trace.cpu_cores.tolist() == [1, 4]  # matched by name: the table of VMs has another order
    assert trace.cpu_ratio[:, 0].tolist() == pytest.approx([0.1, 0.2, 1.14, 0.0])
    assert trace.rx_mbps[:, 0].tolist() == pytest.approx([1.0, 2.0, 0.0, 1.0])  # 125 kB/s is 1 Mb/s
    assert trace.filled.sum() == 1


def test_background_stays_within_capacity_and_is_a_share_of_the_nic(trace: VmTrace) -> None:
    series = background_from_bitbrains(trace, 3, 900, np.random.default_rng(0), nic_mbps=4)
    assert series.cpu_ratio.shape == (4, 3)
    assert series.step_s == 300
    assert series.cpu_ratio.max() == 1.0  # 114 % in the trace
    assert series.rx_ratio.max() == pytest.approx(0.5)


def test_background_is_the_same_for_the_same_random_stream(trace: VmTrace) -> None:
    one, other = (background_from_bitbrains(trace, 5, 9_000, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(one.cpu_ratio, other.cpu_ratio)


def test_published_form_takes_seconds_for_what_its_header_calls_milliseconds(tiny: Path) -> None:
    trace = read_bitbrains_upstream(tiny / "bitbrains_upstream")
    assert trace.vms == ("2", "10")
    assert trace.cpu_ratio[:, 0].tolist() == pytest.approx([0.01, 0.03, 0.03, 0.08])  # mean of two, then repeated
    assert trace.cpu_ratio[:, 1].tolist() == pytest.approx([0.5, 0.5, 0.6, 0.6])
    assert trace.rx_mbps[1, 0] == pytest.approx(2.0)
    assert trace.memory_capacity_mib.tolist() == [2048, 1024]
    assert trace.filled.T.tolist() == [[False, False, True, False], [True, False, False, True]]


def test_published_form_with_true_milliseconds_reads_the_same(tiny: Path, tmp_path: Path) -> None:
    for path in (tiny / "bitbrains_upstream").glob("*.csv"):
        header, *rows = path.read_text().splitlines()
        mended = [row.replace(";", "000;", 1) for row in rows]
        (tmp_path / path.name).write_text("\n".join([header, *mended]))
    ours, theirs = read_bitbrains_upstream(tmp_path), read_bitbrains_upstream(tiny / "bitbrains_upstream")
    np.testing.assert_array_equal(ours.cpu_ratio, theirs.cpu_ratio)


def _with_row(tiny: Path, tmp_path: Path, row: str) -> Path:
    import gzip

    path = tmp_path / "series.csv"
    path.write_bytes(gzip.decompress((tiny / SERIES_FILE).read_bytes()) + row.encode())
    return path


def test_vm_without_description_is_named_or_left_out_and_counted(tiny: Path, tmp_path: Path) -> None:
    series = _with_row(tiny, tmp_path, "".join(f"11,{step},1,1,1,1,0,0,0\n" for step in range(4)))
    with pytest.raises(InputError, match=r"series\.csv:\d+: column 'vm': '11' has no row in .*vms\.csv"):
        read_bitbrains(series, tiny / VMS_FILE)
    trace = read_bitbrains(series, tiny / VMS_FILE, skip_bad=True)
    assert "11" not in trace.vms
    assert trace.bad_rows == 4


def test_repeated_sample_is_refused(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="vm 7 has step 2 more than once"):
        read_bitbrains(_with_row(tiny, tmp_path, "7,2,1,1,1,1,0,0,0\n"), tiny / VMS_FILE)


def test_stray_step_number_does_not_ask_for_a_huge_grid(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a step or time wrong"):
        read_bitbrains(_with_row(tiny, tmp_path, "7,900000,1,1,1,1,0,0,0\n"), tiny / VMS_FILE)


def test_bad_row_is_skipped_on_request_and_its_step_filled(tiny: Path, tmp_path: Path) -> None:
    series = _with_row(tiny, tmp_path, "9,4,50,1000,1,1,0,0,0\n7,4,-3,1,1,1,0,0,0\n")
    with pytest.raises(InputError, match="column 'cpu_pct': '-3' is negative"):
        read_bitbrains(series, tiny / VMS_FILE)
    trace = read_bitbrains(series, tiny / VMS_FILE, skip_bad=True)
    assert trace.bad_rows == 1
    assert trace.cpu_ratio[4, 0] == trace.cpu_ratio[3, 0]
    assert trace.filled[4, 0]


def test_empty_folder_says_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no .csv file"):
        read_bitbrains_upstream(tmp_path)
