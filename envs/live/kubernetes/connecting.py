"""The watch of a cluster, put together from the settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.breaker import Clock
from envs.live.assembling import ZoneRtt
from envs.live.cluster import LiveCluster, PodListener
from envs.live.cluster_settings import ClusterSettings
from envs.live.kubernetes.api import ApiServer
from envs.live.kubernetes.shapes import NODE, PLACED_POD, POD, Shape
from envs.live.kubernetes.sinks import NodeSink, PodSink
from envs.live.kubernetes.waiting import WaitingSink
from envs.live.kubernetes.watching import Follower, Limits
from envs.live.ledger import Ledger
from envs.live.metrics import MetricsSource
from envs.live.waiting import WaitingPods

NODES = "/api/v1/nodes"
ALL_PODS = "/api/v1/pods"


def live_cluster(
    settings: ClusterSettings,
    api: ApiServer,
    ledger: Ledger,
    metrics: MetricsSource,
    clock: Clock,
    listeners: Sequence[PodListener] = (),
    protect_annotation: str = "",
    waiting: WaitingPods | None = None,
) -> LiveCluster:
    """Nothing is asked before it is started. ``waiting`` is for who places the pods of one scheduler itself."""
    rtt = ZoneRtt(settings.same_zone_rtt_ms, settings.zone_rtt_ms)
    followers = watch(settings, api, ledger, clock, _Pods(ledger, protect_annotation, waiting))
    return LiveCluster(ledger, followers, metrics, rtt, clock, listeners=listeners)


@dataclass(frozen=True, slots=True)
class _Pods:
    """What is read of pods, and who keeps it."""

    ledger: Ledger
    protect_annotation: str
    waiting: WaitingPods | None

    def shape(self) -> Shape:
        return POD if self.waiting is None else PLACED_POD

    def sink(self, namespace: str) -> PodSink:
        if self.waiting is None:
            return PodSink(self.ledger, namespace, self.protect_annotation)
        return WaitingSink(self.ledger, self.waiting, namespace)


def watch(settings: ClusterSettings, api: ApiServer, ledger: Ledger, clock: Clock, pods: _Pods) -> list[Follower]:
    """Nodes, and the pods of all namespaces or of those that are named."""
    limits = Limits(settings.page_items, settings.page_max_bytes, settings.request_timeout_s, settings.watch_s)
    nodes = Follower(api, NODES, NODE, NodeSink(ledger, settings.nic_mbps_by_instance_type), limits, clock)
    followers = [
        Follower(api, _pods_of(namespace), pods.shape(), pods.sink(namespace), limits, clock)
        for namespace in settings.namespaces or ("",)
    ]
    return [nodes, *followers]


def _pods_of(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods" if namespace else ALL_PODS
