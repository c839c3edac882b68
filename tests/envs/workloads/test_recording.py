from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agent.errors import InputError
from envs.workloads import recording
from envs.workloads.recording import read_recording
from envs.workloads.recording_records import (
    KINDS,
    SAMPLE_COLUMNS,
    Bound,
    Decision,
    Ended,
    Header,
    NodeSpec,
    PodDemand,
    Sample,
    from_line,
    to_line,
)

NODE = NodeSpec(name="n1", cpu_allocatable_millicores=4000, memory_allocatable_mib=8192)
HEADER = Header(schema_version=3, at_s=10.0, segment=0, nodes=(NODE,))
ENDED = Ended(at_s=12.0, pod_uid="u1")


def segment(folder: Path, *lines: bytes, name: str = "00000000-a.jsonl.gz", cut: int = 0) -> Path:
    packed = gzip.compress(b"".join(lines))
    (folder / name).write_bytes(packed[: len(packed) - cut])
    return folder / name


def a_sample(**changes: Any) -> Sample:
    columns = dict.fromkeys(SAMPLE_COLUMNS, (1.0, None))
    return Sample(**{"at_s": 11.0, "nodes": ("n1", "n2"), **columns, **changes})


def test_records_of_all_segments_come_in_order(tmp_path: Path) -> None:
    segment(tmp_path, to_line(HEADER), to_line(ENDED), name="00000001-b.jsonl.gz")
    segment(tmp_path, to_line(HEADER), to_line(a_sample()), name="00000000-a.jsonl.gz")
    assert [record.kind for record in read_recording(tmp_path)] == ["header", "sample", "header", "ended"]


def test_unknown_metric_is_null_on_disk_and_none_in_memory(tmp_path: Path) -> None:
    line = to_line(a_sample())
    assert json.loads(line)["rx_mbps"] == [1.0, None]
    assert from_line(line) == a_sample()


@pytest.mark.parametrize("cut", [9, 12])
def test_cut_segment_gives_what_was_whole_and_is_counted(tmp_path: Path, cut: int) -> None:
    records = [Ended(at_s=float(i), pod_uid=f"uid-{i * 7919}") for i in range(500)]
    segment(tmp_path, to_line(HEADER), *map(to_line, records), name="00000000-a.jsonl.gz.part", cut=cut)
    reader = read_recording(tmp_path)
    found = list(reader)
    assert found[1:] == records[: len(found) - 1]
    assert len(found) > 400
    assert (reader.truncated_segments, reader.bad_lines) == (1, 0)


def test_last_line_without_its_end_is_left_out_and_counted(tmp_path: Path) -> None:
    segment(tmp_path, to_line(HEADER), to_line(ENDED)[:-5])
    reader = read_recording(tmp_path)
    assert [record.kind for record in reader] == ["header"]
    assert reader.truncated_segments == 1


def test_bad_line_is_named_with_file_line_and_field(tmp_path: Path) -> None:
    path = segment(tmp_path, to_line(HEADER), b'{"kind":"ended","at_s":-1,"pod_uid":"u"}\n')
    with pytest.raises(InputError, match=r":2: ended.at_s: Input should be greater") as caught:
        list(read_recording(tmp_path))
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b'{"kind":"moved"}\n',
        b'{"kind":"ended","at_s":NaN,"pod_uid":"u"}\n',
        b'{"kind":"ended","at_s":1,"pod_uid":"u","colour":1}\n',
        b"[" * 100_000 + b"\n",
    ],
)
def test_bad_lines_are_counted_when_asked_to_skip_them(tmp_path: Path, line: bytes) -> None:
    segment(tmp_path, to_line(HEADER), line, to_line(ENDED))
    reader = read_recording(tmp_path, skip_bad=True)
    for _ in range(2):  # counts belong to one pass
        assert [record.kind for record in reader] == ["header", "ended"]
        assert reader.bad_lines == 1
    assert ":2: " in reader.first_bad
    with pytest.raises(InputError, match=":2: "):
        list(read_recording(tmp_path))


@pytest.mark.parametrize("skip_bad", [False, True])
def test_newer_format_is_refused_even_if_its_header_looks_different(tmp_path: Path, skip_bad: bool) -> None:
    segment(tmp_path, b'{"kind":"header","format_version":3,"tables":{}}\n')
    with pytest.raises(InputError, match="recording format 3, this Pilotfish reads formats 1 and 2"):
        list(read_recording(tmp_path, skip_bad))


def test_segment_must_begin_with_a_header(tmp_path: Path) -> None:
    segment(tmp_path, to_line(ENDED))
    with pytest.raises(InputError, match=":1: the first line is a ended, expected a header"):
        list(read_recording(tmp_path))
    reader = read_recording(tmp_path, skip_bad=True)
    assert list(reader) == []
    assert reader.bad_lines == 1


def test_damaged_middle_is_an_error(tmp_path: Path) -> None:
    path = segment(tmp_path, to_line(HEADER), *(to_line(Ended(at_s=float(i), pod_uid=str(i * i))) for i in range(999)))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    content[len(content) // 2 + 1] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"jsonl\.gz"):
        list(read_recording(tmp_path))


def test_endless_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_LINE_BYTES", 1_000)
    segment(tmp_path, to_line(HEADER), b"x" * 5_000)
    with pytest.raises(InputError, match=":2: line is longer than 1000 bytes"):
        list(read_recording(tmp_path, skip_bad=True))


def test_folder_without_segments_or_no_folder_says_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no recording"):
        read_recording(tmp_path)
    with pytest.raises(InputError, match="no such recording"):
        read_recording(tmp_path / "nowhere")


def test_columns_of_a_sample_must_fit_its_nodes() -> None:
    with pytest.raises(ValidationError, match="rx_mbps has 1 values for 2 nodes"):
        a_sample(rx_mbps=(1.0,))


def test_decision_must_fit_together() -> None:
    parts: dict[str, Any] = {"at_s": 1.0, "pod_uid": "u", "demand": PodDemand(), "source": "policy"}
    assert Decision(**parts, candidates=("a", "b"), scores=(1.0, None), chosen="a").chosen == "a"
    with pytest.raises(ValidationError, match="1 scores for 2 candidates"):
        Decision(**parts, candidates=("a", "b"), scores=(1.0,), chosen="a")
    with pytest.raises(ValidationError, match="chosen node 'c' is no candidate"):
        Decision(**parts, candidates=("a",), scores=(1.0,), chosen="c")


def test_one_segment_can_be_read_alone(tmp_path: Path) -> None:
    path = segment(tmp_path, to_line(HEADER), to_line(Bound(at_s=1.0, pod_uid="u", node="n1")))
    assert len(list(read_recording(path))) == 2


def test_page_names_every_field_of_every_record() -> None:
    page = (Path(__file__).parents[3] / "docs" / "recording.md").read_text()
    for kind, model in KINDS.items():
        section = page.split(f"### `{kind}`")[1].split("\n## ")[0].split("\n### ")[0]
        parts = {"nodes": NodeSpec, "decision": PodDemand}.get(kind)
        expected = {*model.model_fields, *(parts.model_fields if parts else ())} - {"kind"}
        rows = re.findall(r"^\| (.*) \|$", section, re.MULTILINE)
        named = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
        assert named - {"null"} == expected, kind
