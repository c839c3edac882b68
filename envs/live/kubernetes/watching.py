"""One resource of the API server, followed in a thread of its own: a paged list, then a watch from where it ended.

    the connection ends     the watch goes on from the last version seen
    410 Gone                the server has forgotten that version: list again
    anything else           wait, longer each time and never in step with others, then go on

Nothing here ends the thread: an API server that is away is a problem to report, not an end.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from agent.breaker import Clock
from agent.errors import InputError
from envs.live import fields
from envs.live.fields import Json
from envs.live.kubernetes.api import ApiError, ApiServer, TooLarge
from envs.live.kubernetes.backoff import Backoff
from envs.live.kubernetes.shapes import BOOKMARK, Page, Shape, event_of, page_of, status_of

logger = logging.getLogger(__name__)

GONE = 410
SHORT_WATCH_S = 1.0  # a watch that ends sooner and says nothing is a failure: asking again at once would spin
SLACK_S = 10.0  # beyond the time that the server itself sets to a watch
CHANGES = ("ADDED", "MODIFIED")


class Sink(Protocol):
    """Receives one resource; called from the watching thread."""

    def begin(self) -> None:
        """A list begins: what it does not repeat by its end is gone."""
        ...

    def listed(self, item: Json) -> None: ...

    def finish(self) -> None:
        """The list is whole."""
        ...

    def changed(self, item: Json) -> None: ...

    def removed(self, item: Json) -> None: ...


@dataclass(frozen=True, slots=True)
class Limits:
    page_items: int = 500
    page_bytes: int = 64 * 2**20
    list_within_s: float = 30.0  # each page
    watch_s: float = 240.0  # then the server ends it, and we ask again


class Follower:
    """Keeps a sink up to date; ``synced`` after the first whole list, ``problem`` while something is wrong."""

    def __init__(
        self,
        api: ApiServer,
        path: str,
        shape: Shape,
        sink: Sink,
        limits: Limits,
        clock: Clock = time.monotonic,
        backoff: Backoff | None = None,
    ) -> None:
        self.path = path
        self.synced = threading.Event()
        self.problem = "the first list is not complete"
        self.lost_at_s: float | None = None  # None while the watch is open
        self.lists = 0
        self._api = api
        self._shape = shape
        self._sink = sink
        self._limits = limits
        self._page_items = limits.page_items
        self._clock = clock
        self._backoff = backoff or Backoff()
        self._version = ""  # empty: list first
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch {path}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """The thread ends with its request; it is a daemon, so nobody waits for it."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except Exception as why:  # a defect must not end the watch either
                if not self._stopping.is_set():
                    self._stopping.wait(self._failed(why))

    def _follow(self) -> None:
        if not self._version:
            self._list()
        began_s, said = self._clock(), self._watch()
        if not said and self._clock() - began_s < SHORT_WATCH_S and not self._stopping.is_set():
            raise ApiError("the watch ended at once")
        self._backoff.succeeded()

    def _failed(self, why: Exception) -> float:
        if isinstance(why, ApiError) and why.code == GONE:
            self._version = ""
        if isinstance(why, TooLarge):
            self._page_items = max(self._page_items // 2, 1)
        if not isinstance(why, ApiError):
            logger.error("%s: a defect; listing again", self.path, exc_info=why)
            self._version = ""
        wait_s = self._backoff.after_failure(getattr(why, "retry_after_s", 0.0))
        self.problem = f"{self.path}: {why}"
        if self.lost_at_s is None:
            self.lost_at_s = self._clock()
        logger.warning("%s; again in %.1f s", self.problem, wait_s)
        return wait_s

    def _list(self) -> None:
        self._sink.begin()
        self.lists += 1
        version, following = "", ""
        while True:
            page = self._page(following)
            for item in page.items or ():
                self._give(self._sink.listed, item)
            version, following = page.metadata.resource_version, page.metadata.continue_ or ""
            if not following:
                break
        self._sink.finish()
        self._version, self.problem = version, ""
        self.synced.set()

    def _page(self, following: str) -> Page:
        params = {"limit": str(self._page_items)} | ({"continue": following} if following else {})
        return self._api.get(self.path, params, self._limits.list_within_s, self._limits.page_bytes, page_of)

    def _watch(self) -> bool:
        """Whether it said anything before it ended."""
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(round(self._limits.watch_s)),
        }
        said = False
        with self._api.lines(self.path, params, self._limits.watch_s + SLACK_S) as lines:
            self.problem, self.lost_at_s = "", None
            for line in lines:
                if self._stopping.is_set():
                    break
                said = True
                self._event(line)
        return said

    def _event(self, line: bytes) -> None:
        try:
            event = event_of(line)
            if event.type == "ERROR":
                status = status_of(event.object)
                raise ApiError(f"the watch failed: {status.message}", status.code)
        except (msgspec.DecodeError, UnicodeDecodeError) as why:
            raise _unreadable(why) from why
        item = None
        if event.type in CHANGES:
            item = self._give(self._sink.changed, event.object)
        elif event.type == "DELETED":
            item = self._give(self._sink.removed, event.object)
        self._version = _version_of(event.object, item) or self._version  # a bookmark is only this
        self._backoff.succeeded()

    def _give(self, take: Callable[[Json], None], raw: msgspec.Raw) -> Json | None:
        """One object that cannot be read must not hide the others."""
        try:
            item = self._shape.read(raw)
            take(item)
        except InputError as why:
            logger.warning("%s: %r is ignored: %s", self.path, _name_of(raw), why)
            return None
        return item


def _version_of(raw: msgspec.Raw, item: Json | None) -> str:
    """From the object as it was read, if it was."""
    try:
        metadata = fields.an_object(BOOKMARK.read(raw) if item is None else item, "metadata")
        return fields.text(metadata, "resourceVersion")
    except (InputError, UnicodeDecodeError) as why:
        raise _unreadable(why) from why


def _unreadable(why: Exception) -> ApiError:
    return ApiError(f"an event that cannot be read: {why}")


def _name_of(raw: msgspec.Raw) -> str:
    """For the log: of an object that cannot be read nothing else may be shown, it could hold secrets."""
    try:
        return fields.text(fields.an_object(BOOKMARK.read(raw), "metadata"), "name")
    except InputError:
        return ""
