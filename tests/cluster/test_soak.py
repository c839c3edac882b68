"""Pods come and go for a long time, and the sidecar holds no more in the end than after its warm-up.

`make soak` takes 30 minutes, 50,000 pods and 500 nodes, and keeps what it measured; `make test` two minutes of it.
"""

import os
import re
from dataclasses import asdict, dataclass

import httpx
import pytest

from benchmarks.report import origin
from tests.cluster.api import eventually
from tests.cluster.churning import Churn
from tests.cluster.objects import NODES, a_node, create_nodes
from tests.cluster.results import SOAK, keep
from tests.cluster.scraping import start_prometheus
from tests.cluster.sidecar import configuration_beside, start_sidecar
from tests.cluster.soaking import faults_of, summary_of, watch_over
from tests.prometheus import Counters, Exporters

MINUTES = float(os.environ.get("PILOTFISH_SOAK_MINUTES", "0"))


@dataclass(frozen=True)
class Form:
    minutes: float
    nodes: int
    pods: int
    keep: int  # decisions: as many as come before the second quarter of the time


FORM = Form(MINUTES, 500, round(MINUTES * 50_000 / 30), 1000) if MINUTES else Form(2.0, 100, 2000, 100)


@pytest.fixture
def nodes(control_plane):
    names = (f"node-{index:04}" for index in range(FORM.nodes))
    created = create_nodes(control_plane.admin, (a_node(name, zone=name[-1]) for name in names), within_s=100.0)
    yield created
    control_plane.admin.delete(NODES)


@pytest.fixture
def prometheus(control_plane, nodes):
    exporters = Exporters({name: Counters() for name in nodes})
    running = start_prometheus(control_plane.processes, exporters.address, nodes, interval_s=10)
    yield running
    control_plane.processes.stop(running.daemon)
    exporters.close()


@pytest.fixture
def sidecar(control_plane, prometheus):
    running = start_sidecar(control_plane, prometheus__address=prometheus.url, decisions__keep=FORM.keep)
    eventually(lambda: all(node["rx_mbps"] is not None for node in running.state()["nodes"]), "metrics", 60.0)
    yield running
    control_plane.processes.stop(running.daemon)


def decided_by(sidecar) -> dict[str, float]:
    text = httpx.get(f"{sidecar.url}/metrics", timeout=5.0, trust_env=False).text
    found = re.findall(r'^pilotfish_decisions_total{source="(\w+)"} (\S+)$', text, re.MULTILINE)
    return {source: float(count) for source, count in found}


@pytest.mark.timeout(150 + 2 * 60 * FORM.minutes)
def test_memory_descriptors_threads_and_assumed_pods_stay_level(
    control_plane, nodes, sidecar, scheduler, namespace, say
):
    began = origin()
    scheduler(**configuration_beside(sidecar))
    lasts_s = 60.0 * FORM.minutes
    churn = Churn(control_plane.admin, namespace, lasts_s / FORM.pods, lasts_s)
    churn.start()
    looks = watch_over(sidecar, churn, lasts_s)
    eventually(lambda: sidecar.state()["assumed"] == 0, "nothing assumed when every pod is gone")
    decided = decided_by(sidecar)
    found = asdict(FORM) | {"pods": churn.pods()} | summary_of(looks) | {"assumed_left": sidecar.state()["assumed"]}
    found |= {"decisions": sum(decided.values()), "policy_share": round(decided["policy"] / sum(decided.values()), 3)}
    say(f"soak: {found}")
    if MINUTES:
        keep(SOAK, [found], began)
    assert not churn.problems
    assert not faults_of(found, FORM.pods)
