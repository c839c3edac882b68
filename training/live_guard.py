"""The safety rule: who places the next pod of a live run, the policy that learns or the released one.

One pod in ``control_every`` is placed by the released policy, so both are measured in the same cluster at the same
time. Of the last ``window`` pods, let l and r be the means of what the learner's and the released policy's added to the
cost (dollars an hour), and s the standard error of l - r by the spread of all of them: a few pods of the released
policy that happen to be alike must not make chance look sure. The running cost has risen when

    l - r  >  rise x |r|   and   l - r  >  certainty x s,

once each has ``least`` of them. Then the learner falls: it is set back to the released weights, the released policy
places the next ``window`` pods, and the comparison begins anew. After ``most_falls`` it places all that is left. And
after a placement that no metrics show, it places until one is measured.
"""

from __future__ import annotations

from collections import deque
from math import sqrt
from statistics import fmean, pstdev
from typing import Any, NamedTuple

from training.live_config import Safety


class Running(NamedTuple):
    """The last costs of one policy."""

    pods: int
    mean: float


class Guard:
    def __init__(self, rule: Safety) -> None:
        self.rule = rule
        self.falls = 0
        self._placed = 0  # since the last fall
        self._recovering = 0  # pods that the released policy still has to place
        self._blind = False  # the last placement was not measured
        self._last: deque[tuple[bool, float]] = deque(maxlen=rule.window)  # by the learner?, cost

    @property
    def given_up(self) -> bool:
        return self.falls >= self.rule.most_falls

    @property
    def learner(self) -> Running:
        return self._running(True)

    @property
    def released(self) -> Running:
        return self._running(False)

    @property
    def fallen(self) -> bool:
        """The released policy places, and the learner has its weights."""
        return self.given_up or self._recovering > 0

    def learner_decides(self) -> bool:
        """About the next pod."""
        held_back = self.fallen or self._blind
        return not held_back and self._placed % self.rule.control_every != 0

    def unmeasured(self) -> None:
        """No metrics came: the released policy places until some do."""
        self._blind = True

    def note(self, by_learner: bool, cost: float) -> bool:
        """What the placement cost; whether the learner falls because of it."""
        self._placed += 1
        self._blind = False
        self._recovering = max(self._recovering - 1, 0)
        self._last.append((by_learner, cost))
        if not by_learner or not self.has_risen():
            return False
        self.falls += 1
        self._last.clear()
        self._placed, self._recovering = 0, self.rule.window
        return True

    def has_risen(self) -> bool:
        learner, released = self.learner, self.released
        if min(learner.pods, released.pods) < self.rule.least:
            return False
        difference = learner.mean - released.mean
        error = pstdev([cost for _, cost in self._last]) * sqrt(1.0 / learner.pods + 1.0 / released.pods)
        return difference > self.rule.rise * abs(released.mean) and difference > self.rule.certainty * error

    def _running(self, by_learner: bool) -> Running:
        costs = [cost for who, cost in self._last if who == by_learner]
        return Running(len(costs), fmean(costs) if costs else 0.0)

    def state(self) -> dict[str, Any]:
        """To go on from."""
        return {
            "falls": self.falls,
            "placed": self._placed,
            "recovering": self._recovering,
            "blind": self._blind,
            "last": [list(each) for each in self._last],
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.falls, self._placed, self._recovering = state["falls"], state["placed"], state["recovering"]
        self._blind = state["blind"]
        self._last.extend((bool(by_learner), float(cost)) for by_learner, cost in state["last"])
