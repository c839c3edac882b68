"""The decisions of the last minutes, in memory: for the API, the console and whoever else listens.

Noting a decision is a few dictionary writes under a lock, because it happens inside a request. What a decision was made
from (every node's figures) is kept for the newest ones only, as many as fit a budget of nodes; of older ones a summary
stays. Listeners are called in the thread that decided: they must not wait, and what they raise is only logged.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from agent.breaker import Clock
from serving.afterwards import afterwards
from serving.decision import Decision
from serving.subscribing import CAPACITY, MOST_SUBSCRIBERS, Subscription, TooManySubscribers
from serving.summary import summary_of

logger = logging.getLogger(__name__)

KEEP = 1000
WHOLE_NODES = 100_000  # nodes of all decisions that are kept whole: about 120 to 360 bytes each

Kind = Literal["decision", "bound", "ended"]


class Noted:
    """One decision, where it was bound, and, while it is new, what it was made from."""

    def __init__(self, number: int, at_s: float, decision: Decision) -> None:
        self.number = number
        self.at_s = at_s  # unix seconds
        self.uid = decision.pod.uid
        self.bound: str | None = None
        self.bound_at_s: float | None = None
        self._decision: Decision | None = decision
        self._summary: dict[str, Any] | None = None

    @property
    def decision(self) -> Decision | None:
        """None when it is too old to be kept whole."""
        return self._decision

    def summary(self) -> dict[str, Any]:
        """Ready for JSON, a few kilobytes however large the cluster."""
        decision = self._decision  # read first: another thread may let go of it meanwhile, after it made the summary
        if self._summary is None:
            assert decision is not None, "let go without a summary"
            self._summary = {"number": self.number, "at_s": self.at_s, **summary_of(decision)}
        return {**self._summary, "bound": self.bound, "bound_at_s": self.bound_at_s}

    def let_go(self) -> None:
        self.summary()
        self._decision = None


@dataclass(frozen=True, slots=True)
class Event:
    """A decision was made, its pod was bound, or a pod ended (``noted`` is None if nobody decided about it)."""

    kind: Kind
    at_s: float  # unix seconds
    uid: str
    noted: Noted | None

    def described(self) -> dict[str, Any]:
        """Ready for JSON."""
        about = {} if self.noted is None else self.noted.summary()
        return {**about, "kind": self.kind, "uid": self.uid}


Listener = Callable[[Event], None]


class Decisions:
    """Safe to call from any thread."""

    def __init__(self, keep: int = KEEP, whole_nodes: int = WHOLE_NODES, wall_clock: Clock = time.time) -> None:
        self._keep = keep
        self._whole_nodes = whole_nodes
        self._clock = wall_clock
        self._noted: deque[Noted] = deque()
        self._whole: deque[Noted] = deque()
        self._nodes = 0  # of the whole ones
        self._newest_of: dict[str, Noted] = {}  # by UID
        self._numbers = 0
        self._listeners: tuple[Listener, ...] = ()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._noted)

    def listen(self, listener: Listener) -> None:
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def unlisten(self, listener: Listener) -> None:
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each != listener)

    def subscribe(self, capacity: int = CAPACITY) -> Subscription[Event]:
        """What happens from now on, for one reader: ``with decisions.subscribe() as events: async for ...``."""
        if len(self._listeners) >= MOST_SUBSCRIBERS:
            raise TooManySubscribers(f"{MOST_SUBSCRIBERS} listen already")
        return Subscription(self.listen, self.unlisten, capacity)

    def note(self, decision: Decision) -> Noted:
        at_s = self._clock()
        with self._lock:
            self._numbers += 1
            noted = Noted(self._numbers, at_s, decision)
            self._noted.append(noted)
            if noted.uid:
                self._newest_of[noted.uid] = noted
            self._forget_old()
            old = self._let_go_of(noted)
        for each in old:
            afterwards(each.let_go)
        self._tell(Event("decision", at_s, noted.uid, noted))
        return noted

    def on_bound(self, uid: str, node: str) -> None:
        """The pod really got this node; told again, the first time counts."""
        noted = self._newest_of.get(uid)
        if noted is None or noted.bound == node:
            return
        noted.bound, noted.bound_at_s = node, self._clock()
        self._tell(Event("bound", noted.bound_at_s, uid, noted))

    def on_ended(self, uid: str) -> None:
        """The pod is gone from its node."""
        self._tell(Event("ended", self._clock(), uid, self._newest_of.get(uid)))

    def last(self, limit: int, uid: str = "") -> list[Noted]:
        """Newest first."""
        with self._lock:
            newest_first: Iterator[Noted] = reversed(self._noted)
            return list(islice((noted for noted in newest_first if not uid or noted.uid == uid), limit))

    def newest_of(self, uid: str) -> Noted | None:
        return self._newest_of.get(uid)

    def _forget_old(self) -> None:
        while len(self._noted) > self._keep:
            oldest = self._noted.popleft()
            if self._newest_of.get(oldest.uid) is oldest:
                del self._newest_of[oldest.uid]

    def _let_go_of(self, newest: Noted) -> list[Noted]:
        """Those that must make room for the newest; it stays itself, however large."""
        self._whole.append(newest)
        self._nodes += _size(newest)
        gone: list[Noted] = []
        while len(self._whole) > 1 and (self._nodes > self._whole_nodes or len(self._whole) > self._keep):
            gone.append(self._whole.popleft())
            self._nodes -= _size(gone[-1])
        return gone

    def _tell(self, event: Event) -> None:
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:  # whoever listens must not cost an answer
                logger.exception("a listener failed on the %s of pod %s", event.kind, event.uid)


def _size(noted: Noted) -> int:
    return 0 if noted.decision is None else len(noted.decision.names)
