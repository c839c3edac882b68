"""The watch of a cluster, put together from the settings."""

from __future__ import annotations

from collections.abc import Sequence

from agent.breaker import Clock
from envs.live.assembling import ZoneRtt
from envs.live.cluster import LiveCluster, PodListener
from envs.live.cluster_settings import ClusterSettings
from envs.live.kubernetes.api import ApiServer
from envs.live.kubernetes.shapes import NODE, POD
from envs.live.kubernetes.sinks import NodeSink, PodSink
from envs.live.kubernetes.watching import Follower, Limits
from envs.live.ledger import Ledger
from envs.live.metrics import MetricsSource

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
) -> LiveCluster:
    """Nothing is asked before it is started."""
    rtt = ZoneRtt(settings.same_zone_rtt_ms, settings.zone_rtt_ms)
    followers = watch(settings, api, ledger, clock, protect_annotation)
    return LiveCluster(ledger, followers, metrics, rtt, clock, listeners=listeners)


def watch(
    settings: ClusterSettings, api: ApiServer, ledger: Ledger, clock: Clock, protect_annotation: str
) -> list[Follower]:
    """Nodes, and the pods of all namespaces or of those that are named."""
    limits = Limits(settings.page_items, settings.page_max_bytes, settings.request_timeout_s, settings.watch_s)
    nodes = Follower(api, NODES, NODE, NodeSink(ledger, settings.nic_mbps_by_instance_type), limits, clock)
    pods = [
        Follower(api, _pods_of(namespace), POD, PodSink(ledger, namespace, protect_annotation), limits, clock)
        for namespace in settings.namespaces or ("",)
    ]
    return [nodes, *pods]


def _pods_of(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods" if namespace else ALL_PODS
