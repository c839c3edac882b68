"""When a reading was taken, by our clock: a stamp from the future counts from the moment that we first saw it.

Clocks of nodes and servers differ. A source that is ahead of us would give ages below zero, or data that stays
fresh for as long as its clock is ahead, even when nothing new arrives. One that is behind us cannot be told from
old data: its nodes are neutral, which is the safe mistake, and ``/v1/state`` shows their ages.
"""

from __future__ import annotations

from envs.live.metrics import Reading

Key = tuple[str, str]  # column and node


class Arrivals:
    """``at(now_s)`` for each publication of the source, then ``sampled_at_s`` for each of its readings."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._ahead: dict[Key, tuple[float, float]] = {}  # stamp, and when we first saw it; mostly empty
        self._before = self._ahead

    def at(self, now_s: float) -> Arrivals:
        """What the new publication does not repeat is forgotten."""
        self._now_s = now_s
        self._before, self._ahead = self._ahead, {}
        return self

    def sampled_at_s(self, key: Key, reading: Reading) -> float:
        stamp, seen_at_s = self._before.get(key, (reading.sampled_at_s, self._now_s))
        if stamp != reading.sampled_at_s:
            seen_at_s = self._now_s
        if key not in self._before and reading.sampled_at_s <= self._now_s:
            return reading.sampled_at_s
        self._ahead[key] = (reading.sampled_at_s, seen_at_s)
        return min(reading.sampled_at_s, seen_at_s)
