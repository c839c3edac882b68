"""Reading a recording of a real cluster: a folder of gzip segments of JSON lines.

A sidecar can be killed at any moment, so the end of a segment may be missing; what was written before it is
good and is used, and the loss is counted. Anything else that does not fit is an error with file and line.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from agent.errors import InputError
from envs.workloads.recording_records import READABLE_VERSIONS, Header, Record, from_line

SEGMENT_SUFFIX = ".jsonl.gz"
OPEN_SUFFIX = ".part"  # a segment that is still being written
MAX_LINE_BYTES = 16 << 20  # a sample of 5,000 nodes is half a megabyte

_SHOWN_FAULTS = 3


def segment_paths(folder: Path, with_open: bool = True) -> list[Path]:
    """Segments from oldest to newest: their names begin with a running number."""
    suffixes = (SEGMENT_SUFFIX, SEGMENT_SUFFIX + OPEN_SUFFIX) if with_open else (SEGMENT_SUFFIX,)
    return sorted(path for path in folder.iterdir() if path.name.endswith(suffixes))


def read_recording(source: Path, skip_bad: bool = False) -> RecordingReader:
    """The records of a folder of segments, or of one segment, in the order in which they were written."""
    return RecordingReader(source, skip_bad)


class RecordingReader:
    """Iterate over it, then ask how many segments were cut short and how many lines were bad."""

    def __init__(self, source: Path, skip_bad: bool = False) -> None:
        self.segments = _segments(source)
        self.skip_bad = skip_bad
        self.truncated_segments = 0
        self.bad_lines = 0
        self.first_bad = ""

    def __iter__(self) -> Iterator[Record]:
        self.truncated_segments, self.bad_lines, self.first_bad = 0, 0, ""
        for path in self.segments:
            yield from self._records(path)

    def _records(self, path: Path) -> Iterator[Record]:
        known = False  # no line is understood before a header has said which format it is
        for number, line in self._lines(path):
            if not known or b'"header"' in line:
                _refuse_newer(path, number, line)
            record = self._parsed(path, number, line)
            if not known and not isinstance(record, Header):
                if record is not None:
                    self._refuse(f"{path}:{number}: the first line is a {record.kind}, expected a header")
                return
            known = True
            if record is not None:
                yield record

    def _lines(self, path: Path) -> Iterator[tuple[int, bytes]]:
        number = 0
        try:
            with gzip.open(path, "rb") as file:
                while line := file.readline(MAX_LINE_BYTES + 1):
                    number += 1
                    if len(line) > MAX_LINE_BYTES:
                        raise InputError(f"{path}:{number}: line is longer than {MAX_LINE_BYTES} bytes")
                    if not line.endswith(b"\n"):
                        raise EOFError
                    yield number, line
        except EOFError:
            self.truncated_segments += 1
        except (OSError, zlib.error) as why:
            raise InputError(f"{path}: cannot be read after line {number}: {why}") from why

    def _parsed(self, path: Path, number: int, line: bytes) -> Record | None:
        try:
            return from_line(line)
        except ValidationError as why:
            self._refuse(f"{path}:{number}: {_faults(why)}")
            return None

    def _refuse(self, message: str) -> None:
        if not self.skip_bad:
            raise InputError(message)
        self.bad_lines += 1
        self.first_bad = self.first_bad or message


def _segments(source: Path) -> list[Path]:
    if source.is_file():
        return [source]
    if not source.is_dir():
        raise InputError(f"{source}: no such recording; expected a folder of {SEGMENT_SUFFIX} segments")
    paths = segment_paths(source)
    if not paths:
        raise InputError(f"{source}: holds no recording; expected segments named *{SEGMENT_SUFFIX}")
    return paths


def _refuse_newer(path: Path, number: int, line: bytes) -> None:
    """Before anything is validated: a newer header need not look like ours."""
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):  # bad JSON: reported with the reason later
        return
    version = header.get("format_version") if isinstance(header, dict) and header.get("kind") == "header" else None
    if isinstance(version, int) and version not in READABLE_VERSIONS:
        readable = " and ".join(map(str, READABLE_VERSIONS))
        raise InputError(
            f"{path}:{number}: recording format {version}, this Pilotfish reads formats {readable}; "
            f"use the version of Pilotfish that wrote it, or a newer one"
        )


def _faults(why: ValidationError) -> str:
    faults = why.errors(include_url=False, include_context=False)
    shown = [f"{'.'.join(map(str, fault['loc'])) or 'line'}: {fault['msg']}" for fault in faults[:_SHOWN_FAULTS]]
    more = len(faults) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")
