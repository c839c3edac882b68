from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agent.errors import InputError
from envs.workloads.recording import read_recording
from envs.workloads.recording_records import (
    SAMPLE_COLUMNS,
    Bound,
    Decision,
    Ended,
    Nodes,
    NodeSpec,
    PodDemand,
    Record,
    Sample,
)
from envs.workloads.recording_writer import RecordingLimits, RecordingWriter
from training import record
from training.record import pack, read_packed, unpack

NODE = NodeSpec(
    name="n1", zone="a", cpu_allocatable_millicores=4000, memory_allocatable_mib=8192, gpus=2, nic_mbps=10_000.0
)


def records() -> list[Record]:
    demand = PodDemand(app="web", cpu_request_millicores=250, expected_rx_mbps=1.5, demand_source="siblings")
    columns: dict[str, Any] = {name: (float(i), None) for i, name in enumerate(SAMPLE_COLUMNS)}
    empty: dict[str, Any] = dict.fromkeys(SAMPLE_COLUMNS, ())
    return [
        Nodes(at_s=1.0, nodes=(NODE.model_copy(update={"name": "n2", "schedulable": False}),), removed=("gone",)),
        Nodes(at_s=1.5),
        Sample(at_s=2.0, nodes=("n1", "n2"), **columns),
        Sample(at_s=2.5, nodes=(), **empty),
        Decision(
            at_s=3.0,
            pod_uid="u1",
            demand=demand,
            candidates=("n1", "n2"),
            scores=(0.5, None),
            source="policy",
            chosen="n1",
        ),
        Decision(at_s=3.5, pod_uid="u2", demand=PodDemand(), candidates=(), scores=(), source="none", reason="full"),
        Bound(at_s=4.0, pod_uid="u1", node="n2"),
        Ended(at_s=5.0, pod_uid="u1"),
    ]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    seconds = iter(range(1_000_000))
    limits = RecordingLimits(segment_s=4.0)  # several segments
    with RecordingWriter(tmp_path / "source", 7, lambda: float(next(seconds)), (NODE,), limits) as recording:
        for one in records():
            recording.write(one)
    return tmp_path / "source"


def test_packing_and_unpacking_gives_the_same_records(source: Path, tmp_path: Path) -> None:
    report = pack(source, tmp_path / "packed")
    before = list(read_recording(source))
    assert len(before) > len(records()) + 1
    assert unpack(tmp_path / "packed") == before
    assert report.records["sample"] == 2
    assert str(report).startswith(f"packed {report.records['header']} header, 2 nodes, 2 sample")


def test_round_trip_holds_across_row_groups(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "ROWS_PER_GROUP", 1)
    pack(source, tmp_path / "packed")
    assert unpack(tmp_path / "packed") == list(read_recording(source))


def test_samples_have_one_row_per_node(source: Path, tmp_path: Path) -> None:
    pack(source, tmp_path / "packed")
    table = read_packed(tmp_path / "packed", "sample").to_pylist()
    assert [row["node"] for row in table] == ["n1", "n2", None]
    assert [row["cpu_age_s"] for row in table] == [2.0, None, None]


def test_nothing_is_left_behind_when_a_line_is_bad(source: Path, tmp_path: Path) -> None:
    first = sorted(source.glob("*.gz"))[0]
    first.write_bytes(first.read_bytes() + gzip.compress(b'{"kind":"ended"}\n'))
    with pytest.raises(InputError, match=r"ended\.at_s: Field required"):
        pack(source, tmp_path / "packed")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]
    report = pack(source, tmp_path / "packed", skip_bad=True)
    assert report.bad_lines == 1
    assert "bad lines left out: 1, the first: " in str(report)


def test_existing_target_is_not_overwritten(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="exists already"):
        pack(source, source)


def test_left_over_of_a_killed_pack_does_not_matter(source: Path, tmp_path: Path) -> None:
    (tmp_path / "packed.part").mkdir()
    (tmp_path / "packed.part" / "sample.parquet").write_text("half")
    pack(source, tmp_path / "packed")
    assert not (tmp_path / "packed.part").exists()


def test_unknown_kind_missing_file_and_other_format_are_clear_errors(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no kind of record is called 'samples'; choose from header, nodes"):
        read_packed(tmp_path, "samples")
    with pytest.raises(InputError, match=r"no sample\.parquet"):
        read_packed(tmp_path, "sample")
    pack(source, tmp_path / "packed")
    path = tmp_path / "packed" / "sample.parquet"
    pq.write_table(pq.read_table(path).replace_schema_metadata({b"pilotfish_recording_format": b"9"}), path)
    with pytest.raises(InputError, match="recording format 9"):
        read_packed(tmp_path / "packed", "sample")
    pq.write_table(pa.table({"x": [1]}), path)
    with pytest.raises(InputError, match="recording format none"):
        read_packed(tmp_path / "packed", "sample")
    path.write_text("nonsense")
    with pytest.raises(InputError, match="cannot be read"):
        read_packed(tmp_path / "packed", "sample")
