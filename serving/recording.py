"""The record of decisions on disk, in the format of docs/recording.md, so that people can train on their own past.

Whoever decides only puts what happened into a bounded queue; one thread writes. A full queue and a disk that refuses
cost records, which are counted, and never an answer. A question without a UID is about no pod, and is not recorded.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from agent.breaker import Clock
from agent.errors import InputError
from agent.features import SCHEMA_VERSION
from envs.live.background import BackgroundThread
from envs.live.snapshot import ClusterSource
from envs.workloads.recording_records import Ended, Record
from envs.workloads.recording_writer import RecordingLimits, RecordingWriter
from serving.decision import Decision
from serving.decisions import Event
from serving.recording_cluster import ClusterRecords
from serving.recording_records import bound_record, decision_record
from serving.settings import RecordingSettings

logger = logging.getLogger(__name__)

MIB = 1 << 20
TICK_S = 0.5
FLUSH_S = 5.0
STOP_WITHIN_S = 1.0
MOST_QUEUED_NODES = 50_000  # of all decisions that wait: they keep every node's figures alive
MOST_ALIVE = 200_000  # pods whose end is worth a record

Written = Callable[[int, int], None]  # so many written, so many dropped


class _Waiting(NamedTuple):
    event: Event
    decision: Decision | None  # kept here: the ring of decisions may let go of it

    @property
    def nodes(self) -> int:
        return 0 if self.decision is None else len(self.decision.names)


class Recorder(BackgroundThread):
    """Listens to ``Decisions`` and works in the background of the application.

    When it is stopped, what waits is still written, if the disk is quick.
    """

    def __init__(
        self, settings: RecordingSettings, source: ClusterSource, on_written: Written, wall_clock: Clock = time.time
    ) -> None:
        super().__init__("recording", STOP_WITHIN_S)
        self._settings = settings
        self._on_written = on_written
        self._clock = wall_clock
        self._cluster = ClusterRecords(source, settings.sample_every_s)
        self._waiting: queue.Queue[_Waiting] = queue.Queue(settings.queue)
        self._queued_nodes = 0
        self._counting = threading.Lock()
        self._alive: dict[str, None] = {}
        self._writer: RecordingWriter | None = None
        self._retry_at_s = 0.0
        self._flush_at_s = 0.0

    def __call__(self, event: Event) -> None:
        """Called by whoever decides: never waits."""
        if not event.uid:
            return
        waiting = _Waiting(event, None if event.noted is None else event.noted.decision)
        try:
            self._count(waiting.nodes)
            self._waiting.put_nowait(waiting)
        except queue.Full:
            self._count(-waiting.nodes)
            self._on_written(0, 1)

    def _count(self, nodes: int) -> None:
        with self._counting:
            self._queued_nodes += nodes
            if nodes > 0 and self._queued_nodes > max(MOST_QUEUED_NODES, nodes):
                raise queue.Full

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._step(TICK_S)
        while not self._waiting.empty():
            self._step(0.0)
        if self._writer is not None:
            self._writer.close()

    def _step(self, wait_s: float) -> None:
        try:
            self._observe()
            waiting = self._waiting.get(timeout=wait_s) if wait_s else self._waiting.get_nowait()
            self._count(-waiting.nodes)
            self._take(waiting)
        except queue.Empty:
            return
        except Exception:  # one odd decision must not end the record
            logger.exception("a record could not be made")
            self._on_written(0, 1)

    def _observe(self) -> None:
        """The cluster from time to time, and whether all that was written can be read."""
        now_s = self._clock()
        for record in self._cluster.due(now_s):
            self._write(record)
        if now_s >= self._flush_at_s and self._writer is not None:
            self._flush_at_s = now_s + FLUSH_S
            self._writer.flush()

    def _take(self, waiting: _Waiting) -> None:
        event, decision = waiting
        if event.kind == "ended":
            if event.uid in self._alive:
                del self._alive[event.uid]
                self._write(Ended(at_s=event.at_s, pod_uid=event.uid))
        elif event.kind == "bound" and event.noted is not None and event.noted.bound is not None:
            self._write(bound_record(event, event.noted.bound, decision, self._settings.feature_nodes))
        elif event.kind == "decision" and decision is not None:
            self._alive[event.uid] = None
            if len(self._alive) > MOST_ALIVE:
                del self._alive[next(iter(self._alive))]
            self._write(decision_record(event, decision, self._settings.feature_nodes))

    def _write(self, record: Record) -> None:
        writer = self._opened()
        written = writer is not None and writer.write(record)
        self._on_written(int(written), int(not written))

    def _opened(self) -> RecordingWriter | None:
        """The writer; a folder that cannot be used is tried again later."""
        if self._writer is None and self._clock() >= self._retry_at_s:
            limits = RecordingLimits(self._settings.segment_mib * MIB, total_bytes=self._settings.total_mib * MIB)
            try:
                self._writer = RecordingWriter(Path(self._settings.folder), SCHEMA_VERSION, self._clock, (), limits)
                logger.info("recording decisions into %s", self._settings.folder)
            except InputError as why:
                self._retry_at_s = self._clock() + limits.retry_after_s
                logger.error("nothing is recorded: %s; trying again in %g s", why, limits.retry_after_s)
        return self._writer
