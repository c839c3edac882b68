"""A real cluster behind the sidecar: how it is reached, who measures it, and who is told what the watch shows."""

from __future__ import annotations

from typing import NamedTuple

from agent.cluster import Pod
from envs.live.cluster import LiveCluster
from envs.live.kubernetes.access import find_access
from envs.live.kubernetes.api import ApiServer
from envs.live.kubernetes.binding import ApiBinder
from envs.live.kubernetes.connecting import live_cluster
from envs.live.kubernetes.events import PodEvents
from envs.live.ledger import Ledger
from envs.live.placements import AssumedPlacements
from envs.live.snapshot import Snapshot
from serving.decide import Decider
from serving.measuring import Measuring
from serving.observability import Metrics
from serving.settings import Settings


class Placements(AssumedPlacements):
    """What the watch shows corrects what we assumed, and completes what we noted."""

    def __init__(self, decider: Decider) -> None:
        super().__init__(decider.assumed, decider.clock)
        self._decisions = decider.decisions

    def on_bound(self, pod: Pod, node: str, snapshot: Snapshot) -> None:
        super().on_bound(pod, node, snapshot)
        self._decisions.on_bound(pod.uid, node)

    def on_gone(self, pod: Pod, node: str, snapshot: Snapshot) -> None:
        super().on_gone(pod, node, snapshot)
        self._decisions.on_ended(pod.uid)


class LiveParts(NamedTuple):
    """A cluster, who measures it, who binds pods in it, and who tells their owners what was ignored of them."""

    source: LiveCluster
    measuring: Measuring
    binder: ApiBinder
    events: PodEvents


def live_parts(settings: Settings, decider: Decider, observe: Metrics) -> LiveParts:
    """The cluster that the settings name.

    Raises where nobody says how to reach the cluster, never where it is away.
    """
    api, ledger = ApiServer(find_access(settings.cluster.kubeconfig, settings.cluster.context)), Ledger()
    measuring = Measuring(settings, api, ledger)
    observe.watch_sources(lambda: measuring.sources)
    protect = settings.extender.protect_annotation
    source = live_cluster(settings.cluster, api, ledger, measuring, decider.clock, [Placements(decider)], protect)
    return LiveParts(source, measuring, ApiBinder(api), PodEvents(api))
