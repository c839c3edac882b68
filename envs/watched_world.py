"""A World that can be asked what its last placement did: what the rewards of the thesis need.

Loads are computed right before and right after the pod is bound, so that nothing else has moved in between. This costs
as much as two ticks, so it is done only on request.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from agent.cluster import FloatArray
from agent.errors import InputError
from envs.dynamics import usage
from envs.dynamics.world import Loads, World
from envs.rewards import Outcome
from envs.workloads.tape import Tape


class WatchedWorld(World):
    """Remembers where the last pod was really bound and, with ``watch``, the nodes before and after."""

    def __init__(self, tape: Tape, assume: bool = True, watch: bool = False) -> None:
        self.watch = watch
        self.bound_node = -1
        self._seen: Outcome | None = None
        super().__init__(tape, assume)

    def outcome(self) -> Outcome:
        """Of the last placement, with the costs since."""
        if self._seen is None:
            raise InputError("nothing was placed yet, or the world was made without watch=True")
        return replace(self._seen, terms=self.terms)

    def _decide(self, node: int) -> None:
        before = self._loads() if self.watch else None
        super()._decide(node)
        self.bound_node = self.running[-1].node
        if before is not None:
            self._seen = self._compare(before, self._loads())

    def _compare(self, before: Loads, after: Loads) -> Outcome:
        tape, node, pod = self.tape, self.bound_node, self.running[-1].pod
        traffic, connections = self._received_mbps(after), self._connections(after)
        return Outcome(
            terms=self.terms,
            node=np.asarray(node),
            present=tape.node_cpu_millicores > 0,
            pods=self.pods.copy(),
            connections=connections,
            traffic_mbps=traffic,
            latency_ms=tape.node_user_latency_ms,
            own_connections=np.asarray(connections[node] - self._connections(before)[node]),
            own_traffic_mbps=np.asarray(traffic[node] - self._received_mbps(before)[node]),
            latency_soft_ms=np.asarray(float(tape.pod_latency_soft_ms[pod])),
            latency_hard_ms=np.asarray(float(tape.pod_latency_hard_ms[pod])),
        )

    def _received_mbps(self, loads: Loads) -> FloatArray:
        return np.minimum(loads.rx_mbps, self.tape.node_nic_mbps)

    def _connections(self, loads: Loads) -> FloatArray:
        sent_mbps = np.minimum(loads.tx_mbps, self.tape.node_nic_mbps)
        return np.asarray(usage.connections(self._received_mbps(loads) + sent_mbps))
