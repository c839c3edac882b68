"""Bindings that the cluster refuses: each is said, and many in a row end the run.

One is nobody's fault: a node was cordoned, or somebody else bound the pod. Without the right to bind, every one is
refused, and the run would try for ever.
"""

from __future__ import annotations

import logging

from agent.errors import InputError

logger = logging.getLogger(__name__)

MOST_IN_A_ROW = 10  # a refused pod is put off for 5 s: a single one outlasts an API server that restarts


class Refusals:
    def __init__(self) -> None:
        self._said: set[str] = set()
        self._in_a_row = 0

    def bound(self) -> None:
        self._in_a_row = 0

    def refused(self, pod: str, why: str) -> None:
        """Raises ``InputError`` when there were too many."""
        if why not in self._said:
            self._said.add(why)
            logger.warning("pod %s is not bound: %s", pod, why)
        self._in_a_row += 1
        if self._in_a_row >= MOST_IN_A_ROW:
            raise InputError(
                f"{MOST_IN_A_ROW} bindings in a row were refused, the last with {why!r}: give the trainer the role of"
                " `pilotfish rbac --training | kubectl apply -f -`, or mend what it says; then go on with --resume"
            )
