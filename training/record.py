"""``pilotfish record pack``: a recording as parquet files, one per kind of record, for notebooks and training.

The files are written beside the target and renamed when all are complete, so a folder of that name is whole.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from agent.errors import InputError
from envs.workloads.recording import read_recording
from envs.workloads.recording_records import FORMAT_VERSION, Record
from training.record_rows import SCHEMAS, VERSION_KEY, Row, records_of, rows_of

ROWS_PER_GROUP = 65_536


@dataclass(frozen=True, slots=True)
class PackReport:
    """What was packed, and what was lost or left out on the way."""

    out: Path
    records: dict[str, int] = field(default_factory=dict)
    truncated_segments: int = 0
    bad_lines: int = 0
    first_bad: str = ""

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {kind}" for kind, count in self.records.items() if count)
        parts = [f"packed {counts or 'nothing'} into {self.out}"]
        if self.truncated_segments:
            parts.append(f"segments that end abruptly: {self.truncated_segments}")
        if self.bad_lines:
            parts.append(f"bad lines left out: {self.bad_lines}, the first: {self.first_bad}")
        return "; ".join(parts)


def pack(source: Path, out: Path, skip_bad: bool = False) -> PackReport:
    """Turn the segments under ``source`` into parquet files in the new folder ``out``."""
    if out.exists():
        raise InputError(f"{out}: exists already; name a folder that does not")
    reader = read_recording(source, skip_bad)
    beside = out.with_name(out.name + ".part")
    shutil.rmtree(beside, ignore_errors=True)  # left by a pack that was killed
    try:
        beside.mkdir(parents=True)
        counts = _write(reader, beside)
        beside.rename(out)
    except OSError as why:
        raise InputError(f"{out}: cannot be written: {why}") from why
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return PackReport(out, counts, reader.truncated_segments, reader.bad_lines, reader.first_bad)


def read_packed(packed: Path, kind: str) -> Any:
    """One kind of record as a ``pyarrow.Table``; ``polars.from_arrow`` and ``to_pandas`` take it from there."""
    if kind not in SCHEMAS:
        raise InputError(f"no kind of record is called {kind!r}; choose from {', '.join(SCHEMAS)}")
    path = packed / f"{kind}.parquet"
    if not path.is_file():
        raise InputError(f"{packed}: no {kind}.parquet; is it the output of `pilotfish record pack`?")
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as why:
        raise InputError(f"{path}: cannot be read: {why}") from why
    version = (table.schema.metadata or {}).get(VERSION_KEY, b"none").decode()
    if version != str(FORMAT_VERSION):
        raise InputError(
            f"{path}: recording format {version}, this Pilotfish reads format {FORMAT_VERSION}; pack it again"
        )
    return table


def unpack(packed: Path) -> list[Record]:
    """The records again, in their order. Holds all of them in memory: for short recordings and tests."""
    found: dict[int, Record] = {}
    for kind in SCHEMAS:
        found.update(records_of(kind, read_packed(packed, kind).to_pylist()))
    return [found[position] for position in sorted(found)]


def _write(records: Iterable[Record], folder: Path) -> dict[str, int]:
    counts = dict.fromkeys(SCHEMAS, 0)
    with ExitStack() as stack:
        files = {kind: stack.enter_context(_RowFile(folder / f"{kind}.parquet", SCHEMAS[kind])) for kind in SCHEMAS}
        for position, record in enumerate(records):
            counts[record.kind] += 1
            files[record.kind].add({"record": position, **row} for row in rows_of(record))
    return counts


class _RowFile:
    """One parquet file, filled in groups so that a long recording need not fit into memory."""

    def __init__(self, path: Path, schema: Any) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(path, schema, compression="zstd")
        self._pending: list[Row] = []

    def add(self, rows: Iterable[Row]) -> None:
        self._pending.extend(rows)
        if len(self._pending) >= ROWS_PER_GROUP:
            self._flush()

    def __enter__(self) -> _RowFile:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._flush()
        finally:
            self._writer.close()

    def _flush(self) -> None:
        if self._pending:
            self._writer.write_table(pa.Table.from_pylist(self._pending, schema=self._schema))
            self._pending.clear()
