"""What the watch shows of bindings corrects what was assumed about them."""

from __future__ import annotations

from agent.assumed import Assumed, ExpectedUse
from agent.breaker import Clock
from agent.cluster import Pod
from agent.demand import expected_demand, observed_use
from envs.live.snapshot import Snapshot


class AssumedPlacements:
    """A ``PodListener``."""

    def __init__(self, assumed: Assumed, clock: Clock) -> None:
        self._assumed = assumed
        self._clock = clock

    def on_bound(self, pod: Pod, node: str, snapshot: Snapshot) -> None:
        guess = expected_demand(pod, snapshot.observed)
        expected = ExpectedUse(guess.cpu_millicores, guess.memory_mib, guess.rx_mbps, guess.tx_mbps)
        self._assumed.seen(pod.uid, node, self._clock(), expected)

    def on_gone(self, pod: Pod, node: str, snapshot: Snapshot) -> None:
        if node:
            self._assumed.left(pod.uid, node, self._clock(), observed_use(pod, snapshot.observed))
        else:
            self._assumed.deleted(pod.uid)
