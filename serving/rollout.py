"""How much the sidecar is trusted: from watching to deciding, one mode at a time (docs/rollout.md).

    off      every node passes and all are equal; nothing is computed
    shadow   the same answers, but each pod is decided and recorded: what we would have chosen
    canary   some pods are decided by us, the others as in shadow
    active   every pod is decided by us

A pod belongs to the canary by its labels, or by a hash of its UID: repeated calls for one pod agree, and a larger share
keeps the pods of the smaller one.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from agent.cluster import Pod
from serving.labels import LabelSelector
from serving.settings import Mode, RolloutSettings

_HASHES = 2**32


@dataclass(frozen=True, slots=True)
class Verdict:
    """For one pod: the mode that it met, and whether the scheduler gets our answer or a neutral one."""

    mode: Mode = "active"
    applied: bool = True

    @property
    def decided(self) -> bool:
        return self.mode != "off"


ACTIVE = Verdict()


class Rollout:
    def __init__(self, settings: RolloutSettings) -> None:
        self._mode = settings.mode
        self._share = settings.canary_share
        self._selector = LabelSelector.parse(settings.canary_selector)

    def verdict(self, pod: Pod) -> Verdict:
        applied = self._mode == "active" or (self._mode == "canary" and self._in_canary(pod))
        return Verdict(self._mode, applied)

    def _in_canary(self, pod: Pod) -> bool:
        if self._selector.terms:
            return self._selector.selects(pod.labels)
        key = pod.uid or f"{pod.namespace}/{pod.name}"
        return zlib.crc32(f"canary/{key}".encode()) < self._share * _HASHES
