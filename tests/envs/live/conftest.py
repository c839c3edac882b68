"""An API server that fails as it is told, and a live cluster over it."""

from __future__ import annotations

import time

import pytest

from agent.cluster import Pod
from envs.live.cluster_settings import ClusterSettings
from envs.live.kubernetes import backoff
from envs.live.kubernetes.access import Access
from envs.live.kubernetes.api import ApiServer
from envs.live.kubernetes.connecting import live_cluster
from envs.live.ledger import Ledger
from envs.live.metrics import LiveMetrics
from tests.envs.live.scripted_api import ScriptedApi

QUICK = {"request_timeout_s": 2.0, "watch_s": 20.0, "page_items": 3}


class GivenMetrics:
    """A MetricsSource whose readings tests put there."""

    def __init__(self) -> None:
        self.current = LiveMetrics()

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def newest(self) -> LiveMetrics:
        return self.current


class Heard:
    """A PodListener that remembers."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, str]] = []
        self.gone: list[str] = []
        self.left: list[tuple[Pod, str]] = []
        self.counted: list[float] = []  # pods on the node in the snapshot that came with the notice

    def on_bound(self, pod, node, snapshot) -> None:
        self.bound.append((pod.uid, node))
        self.counted.append(float(snapshot.state.pods_running[snapshot.index_of[node]]))

    def on_gone(self, pod, node, snapshot) -> None:
        self.gone.append(pod.uid)
        self.left.append((pod, node))


def eventually(look, what: str = "", within_s: float = 10.0):
    until_s = time.monotonic() + within_s
    while not (seen := look()):
        assert time.monotonic() < until_s, f"not within {within_s} s: {what}"
        time.sleep(0.01)
    return seen


@pytest.fixture
def api(monkeypatch):
    monkeypatch.setattr(backoff, "LONGEST_S", 0.3)
    server = ScriptedApi()
    yield server
    server.stop()


@pytest.fixture
def given_metrics():
    return GivenMetrics()


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
def cluster_of(given_metrics, heard):
    """Starts a live cluster over an API server; stops it afterwards."""
    started = []

    def start(url: str, **settings):
        cluster = live_cluster(
            ClusterSettings(**(QUICK | settings)),
            ApiServer(Access(url, authorization=lambda: "Bearer of-the-test")),
            Ledger(),
            given_metrics,
            time.monotonic,
            [heard],
            "pilotfish.io/protected",
        )
        cluster.start()
        started.append(cluster)
        return cluster

    yield start
    for cluster in started:
        cluster.stop()


@pytest.fixture
def cluster(api, cluster_of):
    """Over the scripted server, with whatever it holds by now; wait for its first snapshot."""
    cluster = cluster_of(api.url)
    eventually(cluster.snapshot, "a first snapshot")
    return cluster
