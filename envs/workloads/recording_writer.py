"""Writing a recording beside a running scheduler: bounded on disk, never in the way.

A segment is written under a name that ends in ``.part`` and renamed when it is complete, so a finished name
means a whole file. The oldest segments make room for new ones. If the disk refuses, records are dropped and
counted and another segment is tried later: a recording must not cost a decision.
"""

from __future__ import annotations

import fcntl
import gzip
import logging
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from agent.errors import InputError
from agent.features import NODE_FEATURES, POD_FEATURES
from envs.workloads.recording import MAX_LINE_BYTES, OPEN_SUFFIX, SEGMENT_SUFFIX, segment_paths
from envs.workloads.recording_records import Header, Nodes, NodeSpec, Record, to_line

logger = logging.getLogger(__name__)

LOCK_FILE = ".writer.lock"


@dataclass(frozen=True, slots=True)
class RecordingLimits:
    """How large segments and the whole recording may grow; sizes are compressed bytes."""

    segment_bytes: int = 16 << 20
    segment_s: float = 3_600.0
    total_bytes: int = 1 << 30
    retry_after_s: float = 30.0

    def __post_init__(self) -> None:
        if self.segment_bytes <= 0 or self.segment_s <= 0 or self.retry_after_s < 0:
            raise InputError("segment_bytes and segment_s must be above 0, retry_after_s not below")
        if self.total_bytes < 2 * self.segment_bytes:
            raise InputError(f"total_bytes {self.total_bytes} must hold two segments of {self.segment_bytes} bytes")


class _Segment:
    """One open file. Every method may raise OSError."""

    def __init__(self, path: Path, opened_s: float) -> None:
        self.path = path
        self.opened_s = opened_s
        self.empty = True
        self._raw: BinaryIO = self._part.open("wb")
        self._gzip = gzip.GzipFile(filename="", mode="wb", fileobj=self._raw, mtime=opened_s)

    @property
    def _part(self) -> Path:
        return self.path.with_name(self.path.name + OPEN_SUFFIX)

    @property
    def bytes_written(self) -> int:
        return self._raw.tell()

    def write(self, line: bytes) -> None:
        self._gzip.write(line)
        self.empty = False

    def flush(self) -> None:
        self._gzip.flush()
        self._raw.flush()

    def close(self) -> None:
        try:
            self._gzip.close()
            self._raw.flush()
            os.fsync(self._raw.fileno())
        finally:
            self._raw.close()
        self._part.rename(self.path)

    def discard(self) -> None:
        with suppress(OSError):
            self._gzip.close()
        with suppress(OSError):
            self._raw.close()
        self._part.unlink(missing_ok=True)


class RecordingWriter:
    """Safe to call from several threads; one writer per folder."""

    def __init__(
        self,
        folder: Path,
        schema_version: int,
        clock: Callable[[], float],  # unix seconds
        nodes: Iterable[NodeSpec] = (),
        limits: RecordingLimits | None = None,
    ) -> None:
        self.limits = limits or RecordingLimits()
        self.written = 0
        self.dropped = 0
        self._folder = folder
        self._schema_version = schema_version
        self._clock = clock
        self._nodes = {node.name: node for node in nodes}
        self._segment: _Segment | None = None
        self._retry_at_s = float("-inf")
        self._closed = False
        self._lock = threading.Lock()
        self._folder_lock = _lock_folder(folder)
        _finish_abandoned(folder)
        self._number = _next_number(folder)

    def write(self, record: Record) -> bool:
        """Append the record; False if it had to be dropped."""
        with self._lock:
            if self._closed:
                raise ValueError("the recording is closed")
            try:
                done = self._write(record)
            except OSError as why:
                self._give_up(why)
                done = False
            self.written += done
            self.dropped += not done
            return done

    def flush(self) -> None:
        """What was written so far can be read now, even if this process is killed."""
        with self._lock:
            self._attempt(lambda segment: segment.flush())

    def rotate(self) -> None:
        """Finish the open segment; the next record starts another."""
        with self._lock:
            self._finish()

    def close(self) -> None:
        with self._lock:
            self._finish()
            self._closed = True
            self._folder_lock.close()

    def __enter__(self) -> RecordingWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, record: Record) -> bool:
        line = to_line(record)
        if len(line) > MAX_LINE_BYTES:
            logger.warning("a %s record of %d bytes is too long for the recording", record.kind, len(line))
            return False
        segment = self._open_segment()
        if segment is None:
            return False
        segment.write(line)
        if isinstance(record, Nodes):
            self._nodes.update({node.name: node for node in record.nodes})
            for name in record.removed:
                self._nodes.pop(name, None)
        if segment.bytes_written >= self.limits.segment_bytes:
            self._finish()
        return True

    def _open_segment(self) -> _Segment | None:
        now_s = self._clock()
        if self._segment is not None and now_s - self._segment.opened_s >= self.limits.segment_s:
            self._finish()
        if self._segment is None and now_s >= self._retry_at_s:
            self._start_segment(now_s)
        return self._segment

    def _start_segment(self, now_s: float) -> None:
        stamp = datetime.fromtimestamp(now_s, UTC).strftime("%Y%m%dT%H%M%SZ")
        self._segment = _Segment(self._folder / f"{self._number:08d}-{stamp}{SEGMENT_SUFFIX}", now_s)
        nodes = tuple(self._nodes.values())
        header = Header(
            schema_version=self._schema_version,
            at_s=now_s,
            segment=self._number,
            nodes=nodes,
            node_features=tuple(NODE_FEATURES),
            pod_features=tuple(POD_FEATURES),
        )
        self._number += 1
        self._segment.write(to_line(header))

    def _finish(self) -> None:
        self._attempt(lambda segment: segment.close())
        self._segment = None
        self._make_room()

    def _attempt(self, action: Callable[[_Segment], None]) -> None:
        if self._segment is None:
            return
        try:
            action(self._segment)
        except OSError as why:
            self._give_up(why)

    def _give_up(self, why: OSError) -> None:
        """Keep what the broken segment holds, and try another one later."""
        logger.warning("recording to %s failed: %s; trying again in %g s", self._folder, why, self.limits.retry_after_s)
        self._retry_at_s = self._clock() + self.limits.retry_after_s
        segment, self._segment = self._segment, None
        with suppress(OSError):
            if segment is not None and segment.empty:
                segment.discard()  # or a disk that stays full would collect a file at every attempt
            elif segment is not None:
                segment.close()
        with suppress(OSError):
            _finish_abandoned(self._folder)

    def _make_room(self) -> None:
        """Delete the oldest segments until a whole new one fits under the limit."""
        with suppress(OSError):
            sizes = [(path, path.stat().st_size) for path in segment_paths(self._folder, with_open=False)]
            total = sum(size for _, size in sizes)
            for path, size in sizes:
                if total <= self.limits.total_bytes - self.limits.segment_bytes:
                    return
                path.unlink()
                total -= size


def _lock_folder(folder: Path) -> BinaryIO:
    """Two writers would finish and delete each other's segments."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK_FILE).open("wb")
    except OSError as why:
        raise InputError(f"{folder}: cannot be used for a recording: {why}") from why
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as why:
        lock.close()
        raise InputError(f"{folder}: another process records into this folder") from why
    return lock


def _finish_abandoned(folder: Path) -> None:
    """Segments of a killed process or of a full disk are as complete as they will ever be."""
    for path in segment_paths(folder):
        if path.name.endswith(OPEN_SUFFIX):
            path.rename(path.with_name(path.name.removesuffix(OPEN_SUFFIX)))


def _next_number(folder: Path) -> int:
    numbers = [path.name.split("-", 1)[0] for path in segment_paths(folder)]
    return max((int(number) + 1 for number in numbers if number.isdecimal()), default=0)
