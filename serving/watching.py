"""Files that may change while the sidecar runs: looked at from time to time, in a thread of their own.

A change counts when two looks in a row agree on it: a folder that is being copied is not read half.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)

STOP_WITHIN_S = 1.0

Stamp = tuple[tuple[str, int, int], ...]


def stamp_of(paths: Iterable[Path]) -> Stamp:
    """Tells whether these files are other ones than before; a missing one counts as empty."""
    stamps = []
    for path in paths:
        try:
            found = path.stat()
            stamps.append((str(path), found.st_mtime_ns, found.st_size))
        except OSError:
            stamps.append((str(path), 0, -1))
    return tuple(stamps)


@dataclass(slots=True)
class _Watched:
    files: Callable[[], Iterable[Path]]
    changed: Callable[[], object]
    known: Stamp  # that ``changed`` was told of
    seen: Stamp  # at the last look


class Watcher:
    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._watched: list[_Watched] = []
        self._asked: list[Callable[[], None]] = []
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="watching files", daemon=True)

    def watch(self, files: Callable[[], Iterable[Path]], changed: Callable[[], object]) -> None:
        """Call ``changed`` in the background when these files are other ones; before ``start``."""
        stamp = stamp_of(files())
        self._watched.append(_Watched(files, changed, stamp, stamp))

    def soon(self, action: Callable[[], None]) -> None:
        """Do this in the background at once; safe in a signal handler."""
        self._asked.append(action)
        self._wake.set()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(STOP_WITHIN_S)

    def look(self) -> None:
        for each in self._watched:
            stamp = stamp_of(each.files())
            settled, each.seen = stamp == each.seen, stamp
            if settled and stamp != each.known:
                each.known = stamp
                _safely(each.changed)

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(self._every_s or None)
            self._wake.clear()
            while self._asked and not self._stopping:
                _safely(self._asked.pop(0))
            if self._every_s and not self._stopping:
                self.look()


def _safely(action: Callable[[], object]) -> None:
    try:
        action()
    except Exception:  # the next change must still be seen
        logger.exception("a change of files could not be taken over")
