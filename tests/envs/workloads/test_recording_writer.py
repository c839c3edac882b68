from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agent.errors import InputError
from envs.workloads import recording_writer
from envs.workloads.recording import read_recording, segment_paths
from envs.workloads.recording_records import Bound, Ended, Header, Nodes, NodeSpec
from envs.workloads.recording_writer import RecordingLimits, RecordingWriter

NODE = NodeSpec(name="n1", cpu_allocatable_millicores=4000, memory_allocatable_mib=8192)
OTHER = NODE.model_copy(update={"name": "n2"})


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def ended(i: int) -> Ended:
    return Ended(at_s=float(i), pod_uid=os.urandom(16).hex())  # does not compress


def writer(folder: Path, clock: Clock, limits: RecordingLimits | None = None) -> RecordingWriter:
    return RecordingWriter(folder, 1, clock, (NODE,), limits)


def test_what_is_written_is_read_back(tmp_path: Path, clock: Clock) -> None:
    records = [ended(i) for i in range(100)]
    with writer(tmp_path, clock) as recording:
        assert all(recording.write(record) for record in records)
    header, *found = read_recording(tmp_path)
    assert isinstance(header, Header)
    assert header.nodes == (NODE,)
    assert found == records
    assert (recording.written, recording.dropped) == (100, 0)


def test_open_segment_has_a_name_of_its_own_until_it_is_complete(tmp_path: Path, clock: Clock) -> None:
    with writer(tmp_path, clock) as recording:
        recording.write(ended(0))
        assert [path.suffix for path in segment_paths(tmp_path)] == [".part"]
    assert [path.suffix for path in segment_paths(tmp_path)] == [".gz"]


def test_flushed_records_can_be_read_while_the_segment_is_open(tmp_path: Path, clock: Clock) -> None:
    with writer(tmp_path, clock) as recording:
        recording.write(ended(0))
        recording.flush()
        assert len(list(read_recording(tmp_path))) == 2


def test_each_segment_starts_with_the_nodes_of_its_time(tmp_path: Path, clock: Clock) -> None:
    with writer(tmp_path, clock, RecordingLimits(segment_s=60)) as recording:
        recording.write(Nodes(at_s=1.0, nodes=(OTHER,)))
        clock.now_s += 61
        recording.write(Nodes(at_s=2.0, removed=("n1",)))
        clock.now_s += 61
        recording.write(ended(0))
    headers = [record for record in read_recording(tmp_path) if isinstance(record, Header)]
    assert [[node.name for node in header.nodes] for header in headers] == [["n1"], ["n1", "n2"], ["n2"]]
    assert [header.segment for header in headers] == [0, 1, 2]


def test_disk_use_stays_bounded_by_deleting_the_oldest(tmp_path: Path, clock: Clock) -> None:
    limits = RecordingLimits(segment_bytes=20_000, total_bytes=100_000)
    with writer(tmp_path, clock, limits) as recording:
        for i in range(20_000):
            recording.write(ended(i))
            if i % 500 == 0:
                assert sum(path.stat().st_size for path in segment_paths(tmp_path)) <= 100_000 + 65_536
    kept = [record for record in read_recording(tmp_path) if isinstance(record, Ended)]
    assert kept[-1].at_s == 19_999
    assert [record.at_s for record in kept] == [float(i) for i in range(20_000 - len(kept), 20_000)]
    assert sum(path.stat().st_size for path in segment_paths(tmp_path)) <= 100_000
    assert len(kept) < 20_000


def test_numbers_go_on_after_a_restart_even_if_the_clock_went_back(tmp_path: Path, clock: Clock) -> None:
    for i in range(3):
        with writer(tmp_path, clock) as recording:
            recording.write(Ended(at_s=float(i), pod_uid="u"))
        clock.now_s -= 500
    assert [record.at_s for record in read_recording(tmp_path) if isinstance(record, Ended)] == [0, 1, 2]


def test_only_one_writer_per_folder(tmp_path: Path, clock: Clock) -> None:
    with writer(tmp_path, clock), pytest.raises(InputError, match="another process records into this folder"):
        writer(tmp_path, clock)
    writer(tmp_path, clock).close()


def test_killed_writer_loses_at_most_what_was_not_flushed(tmp_path: Path, clock: Clock) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from envs.workloads.recording_records import Ended\n"
        "from envs.workloads.recording_writer import RecordingWriter\n"
        "recording = RecordingWriter(Path(sys.argv[1]), 1, time.time)\n"
        "for i in range(1000): recording.write(Ended(at_s=float(i), pod_uid='u'))\n"
        "recording.flush(); print('ready', flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    with writer(tmp_path, clock) as recording:
        recording.write(Bound(at_s=5.0, pod_uid="u", node="n1"))
    reader = read_recording(tmp_path)
    kinds = [record.kind for record in reader]
    assert kinds == ["header", *["ended"] * 1000, "header", "bound"]
    assert reader.truncated_segments == 1


def test_failing_disk_drops_records_and_is_tried_again_later(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = writer(tmp_path, clock, RecordingLimits(retry_after_s=30))
    recording.write(ended(0))
    full = [True]
    really = recording_writer._Segment.write

    def write(segment: recording_writer._Segment, line: bytes) -> None:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        really(segment, line)

    monkeypatch.setattr(recording_writer._Segment, "write", write)
    assert not recording.write(ended(1))
    for _ in range(20):
        clock.now_s += 31
        assert not recording.write(ended(2))
    full[0] = False
    assert not recording.write(ended(3)), "not before the time is up"
    clock.now_s += 31
    assert recording.write(ended(4))
    recording.close()
    assert [record.at_s for record in read_recording(tmp_path) if isinstance(record, Ended)] == [0, 4]
    assert (recording.written, recording.dropped) == (2, 22)
    assert len(segment_paths(tmp_path)) == 2, "a disk that stays full collects no files"


def test_threads_take_turns(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[int] = []
    crowds: list[int] = []
    really = recording_writer._Segment.write

    def slowly(segment: recording_writer._Segment, line: bytes) -> None:
        inside.append(1)
        time.sleep(0.001)
        crowds.append(len(inside))
        really(segment, line)
        inside.pop()

    monkeypatch.setattr(recording_writer._Segment, "write", slowly)
    with writer(tmp_path, clock, RecordingLimits(segment_bytes=500)) as recording:
        threads = [threading.Thread(target=lambda: [recording.write(ended(i)) for i in range(50)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert max(crowds) == 1
    assert sum(isinstance(record, Ended) for record in read_recording(tmp_path)) == 200


def test_closed_writer_refuses_records(tmp_path: Path, clock: Clock) -> None:
    recording = writer(tmp_path, clock)
    recording.close()
    with pytest.raises(ValueError, match="closed"):
        recording.write(ended(0))


def test_limits_that_cannot_hold_are_refused() -> None:
    with pytest.raises(InputError, match="must hold two segments"):
        RecordingLimits(segment_bytes=100, total_bytes=150)
