"""Placement moves the metrics, and the metrics reach the sidecar: a scheduler's choice comes back to it."""

from collections import Counter

import pytest

from envs.workloads.scenario import load_scenario
from envs.workloads.synthetic import make_tape
from tests.cluster.api import eventually
from tests.cluster.exporter import Exporter
from tests.cluster.objects import NODES, create_nodes, create_pods, wait_until_bound
from tests.cluster.scraping import start_prometheus
from tests.cluster.sidecar import configuration_beside, start_sidecar
from tests.cluster.tape_objects import node_of, pod_of
from tests.cluster.truth import Truth

PODS = 30
POLICY_SHARE = 0.9  # the others: a busy machine, and a model that was given up in time
FIRST_CHOICE_SHARE = 0.95  # at the shipped weight
RECEIVED = "sum by (node) (rate(node_network_receive_bytes_total[10s]))"
SPEED = 4.0  # tape seconds a second


@pytest.fixture(scope="module")
def tape():
    return make_tape(load_scenario("bursts"), 0, 0)


@pytest.fixture
def tape_nodes(control_plane, tape):
    names = create_nodes(control_plane.admin, (node_of(tape, node) for node in range(tape.node_slots)))
    yield names
    control_plane.admin.delete(NODES)


@pytest.fixture
def exporter(control_plane, tape, namespace):
    running = Exporter(Truth(tape, SPEED), control_plane.admin, namespace)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def prometheus(control_plane, exporter, tape_nodes):
    running = start_prometheus(control_plane.processes, exporter.address, tape_nodes)
    yield running
    control_plane.processes.stop(running.daemon)


@pytest.fixture
def sidecar(control_plane, prometheus):
    metrics = {"prometheus__address": prometheus.url, "prometheus__interval_s": 1, "prometheus__window_s": 10}
    running = start_sidecar(control_plane, **metrics, assumed__window_s=10)
    yield running
    control_plane.processes.stop(running.daemon)


def traffic_pods(tape) -> list[int]:
    """The pods that receive the most, so that their traffic stands out from the background."""
    ordered = sorted(range(tape.pod_slots), key=lambda pod: -float(tape.pod_rx_mbps[pod]))
    return ordered[:PODS]


def received_mbps(sidecar, names: set[str]) -> float:
    """What the sidecar believes that these nodes receive."""
    return sum(node["rx_mbps"] or 0.0 for node in sidecar.state()["nodes"] if node["name"] in names)


@pytest.mark.timeout(150)
def test_where_the_pods_go_is_what_the_sidecar_then_sees(
    control_plane, tape, tape_nodes, exporter, prometheus, sidecar, scheduler, namespace, say
):
    everybody = set(tape_nodes)
    eventually(lambda: len(prometheus.values(RECEIVED)) == len(everybody), "every node scraped twice")
    eventually(lambda: received_mbps(sidecar, everybody) > 0, "the background's traffic at the sidecar")
    scheduler(**configuration_beside(sidecar))
    create_pods(control_plane.admin, namespace, (pod_of(tape, pod) for pod in traffic_pods(tape)))
    where = wait_until_bound(control_plane.admin, namespace, PODS)
    loaded, before = set(where.values()), {node: received_mbps(sidecar, {node}) for node in everybody}
    added_mbps = sum(float(tape.pod_rx_mbps[pod]) for pod in traffic_pods(tape))

    def risen() -> bool:
        return received_mbps(sidecar, loaded) > sum(before[node] for node in loaded) + 0.3 * added_mbps

    eventually(risen, f"most of {added_mbps:.0f} Mbit/s more on the nodes that got the pods", within_s=40.0)
    decisions = [each for each in sidecar.decisions() if each["namespace"] == namespace]
    first = sum(each["best"] == where[each["name"]] for each in decisions) / len(decisions)
    sources = Counter(each["source"] for each in decisions)
    say(f"closed loop: {first:.0%} of {PODS} pods bound to the first choice, by {dict(sources)}")
    assert len(decisions) == PODS
    assert first >= FIRST_CHOICE_SHARE
    assert set(sources) <= {"policy", "expected_utilisation"}  # neither without metrics
    assert sources["policy"] >= POLICY_SHARE * PODS  # on nodes without any label of ours
