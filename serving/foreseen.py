"""Answers that are ready before they are asked for.

kube-scheduler asks twice about a pod: whom to take out, then how to rank the rest. Between the two it scores the nodes
by its own plugins, and waits for us afterwards. So we rank while it scores. The second question is the first one again,
byte for byte, if nobody was taken out; then the answer is given at once, unless the cluster has changed meanwhile.
Nothing comes of an answer that nobody asks for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

from envs.live.fields import Json
from serving.extender import Considered, Extender

logger = logging.getLogger(__name__)


FOR_S = 0.1  # later it would rest on older data than it need


class Foresight(NamedTuple):
    """The answer to ``prioritize`` about these nodes."""

    names: Sequence[str]
    considered: Considered
    at_s: float


class Foreseen:
    """Of the newest pod only: one scheduler asks for one pod at a time."""

    def __init__(self, extender: Extender) -> None:
        self._extender = extender
        self._body = b""
        self._answer: Foresight | None = None
        self._begin: asyncio.Handle | None = None

    def expect(self, body: bytes, pod: Json, names: Sequence[str]) -> None:
        """This will be asked next: to be considered as soon as the answer that is being given is out."""
        self.forget()
        self._body = body
        self._begin = asyncio.get_running_loop().call_soon(self._consider, pod, names)

    def take(self, body: bytes) -> Foresight | None:
        """The answer to exactly this question, once, if it still holds."""
        answer = self._answer if body == self._body else None
        self.forget()
        return answer if answer is not None and self._holds(answer) else None

    def forget(self) -> None:
        if self._begin is not None:
            self._begin.cancel()
        self._body, self._answer, self._begin = b"", None, None

    def _holds(self, answer: Foresight) -> bool:
        return self._extender.clock() - answer.at_s < FOR_S and self._extender.holds(answer.considered)

    def _consider(self, pod: Json, names: Sequence[str]) -> None:
        try:
            considered, at_s = self._extender.considered(pod, names), self._extender.clock()
        except Exception:  # whoever asks for it meets the same, and is answered nevertheless
            logger.debug("an answer could not be foreseen", exc_info=True)
            return
        self._answer = None if considered is None else Foresight(names, considered, at_s)
