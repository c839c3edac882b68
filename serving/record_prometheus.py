"""``pilotfish record prometheus``: the past of a cluster, as Prometheus kept it, in the form that training reads.

Queries and labels are those of the sidecar's settings. What Prometheus does not have is said at the end, not guessed.
"""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from agent.cluster import FloatArray
from agent.errors import InputError
from agent.features import SCHEMA_VERSION
from envs.live.prometheus_client import PrometheusClient, PrometheusUnavailable
from envs.live.prometheus_history import Chunk, History, chunks
from envs.live.prometheus_pods import PodHistory
from envs.live.prometheus_settings import PrometheusSettings
from envs.workloads.recording import segment_paths
from envs.workloads.recording_records import SAMPLE_COLUMNS, Nodes, NodeSpec, Record, Sample
from envs.workloads.recording_writer import RecordingLimits, RecordingWriter

MOST_STEPS = 1_000_000
LIMITS = RecordingLimits(total_bytes=1 << 40)  # the past is as long as it was asked for: nothing is deleted
_AGO = re.compile(r"-([0-9]{1,9})([smhdw])")
_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


@dataclass(slots=True)
class RecordReport:
    out: Path
    steps: int = 0
    records: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    chunks: int = 0

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.records.items()))
        lines = [f"recorded {counts or 'nothing'} into {self.out}"]
        for what, times in self.missing.items():
            lines.append(f"not in Prometheus ({'all of the time' if times == self.chunks else 'at times'}): {what}")
        return "\n".join(lines)


def record(settings: PrometheusSettings, out: Path, from_text: str, to_text: str, step_s: float) -> RecordReport:
    """Write the recording of a stretch of the past into the new folder ``out``."""
    from_s, to_s = _stretch(from_text, to_text, step_s)
    if out.is_dir() and segment_paths(out):
        raise InputError(f"{out}: holds a recording already; name another folder")
    client = PrometheusClient(settings.needs_an_address())
    try:
        return _Recorder(client, out).record(from_s, to_s, step_s)
    except PrometheusUnavailable as why:
        raise InputError(f"Prometheus: {why}") from why
    finally:
        client.close()


class _Recorder:
    def __init__(self, client: PrometheusClient, out: Path) -> None:
        self._history = History(client)
        self._pods = PodHistory(self._history)
        self._report = RecordReport(out, missing=self._history.missing)
        self._specs: dict[str, NodeSpec] = {}
        self._now_s = 0.0  # of the past: segments are named after it
        self._writer: RecordingWriter | None = None

    def record(self, from_s: float, to_s: float, step_s: float) -> RecordReport:
        try:
            for chunk in chunks(from_s, to_s, step_s):
                self._take(chunk)
        finally:
            if self._writer is not None:
                self._writer.close()
        return self._report

    def _take(self, chunk: Chunk) -> None:
        self._history.find_mapping(chunk)
        names, grids = self._history.columns(chunk)
        nic_mbps = _last_known(names, grids["nic_mbps"])
        records: list[Record] = [*self._changed_nodes(names, chunk, nic_mbps)]
        records += sorted([*samples(chunk, names, grids), *self._pods.records(chunk)], key=lambda record: record.at_s)
        for record in records:
            self._write(record)
        self._report.chunks += 1
        self._report.steps += len(chunk.times_s)

    def _changed_nodes(self, names: list[str], chunk: Chunk, nic_mbps: dict[str, float]) -> list[Record]:
        """The nodes of the first chunk go into the header of the recording; later only what is new, changed or gone."""
        specs = {spec.name: spec for spec in self._history.specs(names, chunk, nic_mbps)}
        before, self._specs = self._specs, specs or self._specs
        if self._writer is None:
            self._now_s = chunk.from_s
            self._writer = RecordingWriter(
                self._report.out, SCHEMA_VERSION, lambda: self._now_s, self._specs.values(), LIMITS
            )
            return []
        changed = tuple(spec for name, spec in self._specs.items() if before.get(name) != spec)
        removed = tuple(before.keys() - self._specs.keys())
        return [Nodes(at_s=chunk.from_s, nodes=changed, removed=removed)] if changed or removed else []

    def _write(self, record: Record) -> None:
        assert self._writer is not None
        self._now_s = max(self._now_s, record.at_s)
        if not self._writer.write(record):
            raise InputError(f"{self._report.out}: cannot be written; is the disk full?")
        self._report.records[record.kind] = self._report.records.get(record.kind, 0) + 1


def samples(chunk: Chunk, names: list[str], grids: dict[str, FloatArray]) -> list[Record]:
    """One sample a step; steps at which nothing is known have none."""
    columns = {name: _column(name, chunk, grids) for name in SAMPLE_COLUMNS}
    made: list[Record] = []
    for step, at_s in enumerate(chunk.times_s.tolist()):
        values = {name: tuple(_or_none(value) for value in grid[:, step].tolist()) for name, grid in columns.items()}
        if any(value is not None for column in values.values() for value in column):
            made.append(Sample.model_validate({"at_s": at_s, "nodes": tuple(names), **values}))
    return made


def _column(name: str, chunk: Chunk, grids: dict[str, FloatArray]) -> FloatArray:
    """Ages come from the times of the samples; a sample of the future is of now."""
    if not name.endswith("_age_s"):
        return grids[name]
    ages_s: FloatArray = chunk.times_s - grids[name.replace("_age_s", "_time")]
    return ages_s.clip(min=0.0)


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _last_known(names: list[str], grid: FloatArray) -> dict[str, float]:
    known = {name: row[~(row != row)] for name, row in zip(names, grid, strict=True)}
    return {name: float(values[-1]) for name, values in known.items() if len(values)}


def _stretch(from_text: str, to_text: str, step_s: float) -> tuple[float, float]:
    """In whole seconds."""
    from_s, to_s = (float(round(_moment(text))) for text in (from_text, to_text))
    if not to_s > from_s:
        raise InputError(f"--to {to_text} is not after --from {from_text}")
    if (to_s - from_s) / step_s > MOST_STEPS:
        raise InputError(f"more than {MOST_STEPS} steps of {step_s:g} s: give a longer --step, or record in parts")
    return from_s, to_s


def _moment(text: str) -> float:
    """Unix seconds of an ISO time, unix seconds, `now`, or a time ago such as -6h."""
    if text == "now":
        return time.time()
    if ago := _AGO.fullmatch(text):
        return time.time() - int(ago[1]) * _UNIT_S[ago[2]]
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]+)?", text):
        return float(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as why:
        raise InputError(f"{text!r} is no time: give 2026-08-16T10:00:00Z, unix seconds, now, or -6h") from why
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
