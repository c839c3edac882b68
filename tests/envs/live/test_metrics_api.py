"""CPU and memory from metrics.k8s.io."""

from __future__ import annotations

import math

import pytest

from envs.live.kubernetes.access import Access
from envs.live.kubernetes.api import ApiServer
from envs.live.metrics import PodUse, Reading
from envs.live.metrics_api import MetricsApiSource
from tests.envs.live.conftest import eventually
from tests.envs.live.scripted_api import status

STAMP, SECONDS = "2026-01-01T00:00:00Z", 1767225600.0


@pytest.fixture
def source(api):
    api.put(
        "metrics-nodes",
        {"metadata": {"name": "a"}, "timestamp": STAMP, "usage": {"cpu": "1500000000n", "memory": "2097152Ki"}},
    )
    containers = [{"name": name, "usage": {"cpu": "100m", "memory": "64Mi"}} for name in ("main", "proxy")]
    api.put(
        "metrics-pods",
        {"metadata": {"name": "p", "namespace": "shop"}, "timestamp": STAMP, "containers": containers},
    )
    return MetricsApiSource(ApiServer(Access(api.url)), interval_s=0.2)


def test_use_of_nodes_and_pods_is_read(source):
    found = source.read()
    assert found.columns["cpu_used_millicores"] == {"a": Reading(1500.0, SECONDS)}
    assert found.columns["memory_used_mib"] == {"a": Reading(2048.0, SECONDS)}
    use = found.pods["shop", "p"]
    assert (use.cpu_millicores, use.memory_mib) == (200.0, 128.0)
    assert math.isnan(use.rx_mbps)
    assert isinstance(use, PodUse)
    assert not found.problems


def test_readings_stay_while_it_does_not_answer(source, api):
    source.start()
    eventually(lambda: source.newest().columns, "a first answer")
    api.faults["list"].extend([status(503)] * 3)
    eventually(lambda: source.newest().problems, "the problem is said")
    assert source.newest().columns["cpu_used_millicores"]["a"].value == 1500.0
    eventually(lambda: not source.newest().problems, "and overcome")
    source.stop()


@pytest.mark.parametrize(
    "broken",
    [
        {"metadata": {"name": "b"}, "timestamp": "yesterday", "usage": {"cpu": "1", "memory": "1Gi"}},
        {"metadata": {"name": "b"}, "timestamp": STAMP, "usage": {"cpu": "lots", "memory": "1Gi"}},
        {"metadata": {"name": "b"}, "timestamp": STAMP, "usage": []},
    ],
)
def test_answer_that_cannot_be_read_is_a_problem_and_no_end(source, api, broken):
    api.put("metrics-nodes", broken)
    found = source.read()
    assert len(found.problems) == 1
    assert found.columns == {}
