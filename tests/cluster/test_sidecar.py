"""An unmodified kube-scheduler asks a real sidecar, which watches the real API server under its own role."""

import time
from collections.abc import Callable

import pytest

from tests.cluster.api import Object, eventually
from tests.cluster.objects import a_pod, bindings_said, cordon, create_pods, wait_until_bound
from tests.cluster.sidecar import configuration_beside, start_sidecar

PODS = 50
BEST_SCORE_SHARE = 0.95  # nodes that stand equal in every way get one score, and kube-scheduler chooses among them


def pods(count: int, first: int = 0) -> list[Object]:
    return [a_pod(f"pod-{index:03}") for index in range(first, first + count)]


@pytest.fixture
def sidecar(control_plane):
    """Starts a sidecar with the settings that a test gives; stops it afterwards."""
    started = []

    def start(**settings):
        started.append(start_sidecar(control_plane, **settings))
        return started[-1]

    yield start
    for each in started:
        control_plane.processes.stop(each.daemon)


def best_scored(decision: Object) -> list[str]:
    """The first choice, and whoever stands equal to it."""
    best = decision["top"][0]["score"]
    return [each["node"] for each in decision["top"] if each["score"] == best]


def share_of(where: dict[str, str], wanted: dict[str, Object], nodes_of: Callable[[Object], list[str]]) -> float:
    """Of the pods, those that went to one of these nodes of their decision."""
    return sum(node in nodes_of(wanted[pod]) for pod, node in where.items()) / len(where)


def decided(sidecar, namespace: str) -> dict[str, Object]:
    """The newest decision about each pod of the namespace."""
    oldest_first = reversed(sidecar.decisions())
    return {each["name"]: each for each in oldest_first if each["namespace"] == namespace}


def test_pods_go_where_the_sidecar_wants_them(control_plane, nodes, scheduler, sidecar, namespace, say):
    beside = sidecar()
    scheduler(**configuration_beside(beside))
    create_pods(control_plane.admin, namespace, pods(PODS))
    where = wait_until_bound(control_plane.admin, namespace, PODS)
    wanted = decided(beside, namespace)
    assert len(wanted) == PODS
    first = share_of(where, wanted, lambda decision: [decision["best"]])
    best_score = share_of(where, wanted, best_scored)
    said = f"{first:.0%} of {PODS} pods are bound to the sidecar's first choice"
    say(f"{said}, {best_score:.0%} to a node it scored best")
    assert best_score >= BEST_SCORE_SHARE


def test_a_sidecar_killed_in_the_middle_costs_no_pod(control_plane, nodes, scheduler, sidecar, namespace):
    beside = sidecar()
    scheduler(**configuration_beside(beside))
    for index, pod in enumerate(pods(PODS)):
        if index == PODS // 2:
            assert decided(beside, namespace), "kube-scheduler does not ask it"
            beside.daemon.kill()
        create_pods(control_plane.admin, namespace, [pod])
        time.sleep(0.02)
    where = wait_until_bound(control_plane.admin, namespace, PODS)
    assert set(where.values()) <= set(nodes)
    eventually(lambda: len(bindings_said(control_plane.admin, namespace)) == PODS, "an event for every binding")
    said = bindings_said(control_plane.admin, namespace)
    assert {pod: len(messages) for pod, messages in said.items()} == dict.fromkeys(where, 1)


def test_a_cordoned_node_gets_no_pod_while_the_sidecar_decides(control_plane, nodes, scheduler, sidecar, namespace):
    beside = sidecar()
    scheduler(**configuration_beside(beside))
    closed = nodes[0]
    cordon(control_plane.admin, closed)
    create_pods(control_plane.admin, namespace, pods(20))
    where = wait_until_bound(control_plane.admin, namespace, 20)
    assert closed not in where.values()
    wanted = decided(beside, namespace)
    assert len(wanted) == 20
    assert all(each["best"] != closed for each in wanted.values())


def pods_that_would_like(node: str, count: int) -> list[Object]:
    """kube-scheduler follows such a wish when nobody objects; the sidecar does not know it and spreads."""
    wish = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    preferred = [{"weight": 100, "preference": wish}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return [a_pod(f"pod-{index:03}", affinity=affinity) for index in range(count)]


@pytest.mark.parametrize(("mode", "decides"), [("shadow", False), ("active", True)])
def test_in_shadow_mode_the_scheduler_decides_and_the_sidecar_only_notes(
    control_plane, nodes, scheduler, sidecar, namespace, mode, decides
):
    beside = sidecar(rollout__mode=mode)
    scheduler(**configuration_beside(beside))
    favourite = nodes[-1]
    create_pods(control_plane.admin, namespace, pods_that_would_like(favourite, 20))
    where = wait_until_bound(control_plane.admin, namespace, 20)
    noted = decided(beside, namespace)
    assert len(noted) == 20
    assert {each["applied"] for each in noted.values()} == {decides}
    assert (set(where.values()) != {favourite}) == decides


def test_an_annotation_that_cannot_be_read_is_told_to_its_pod_which_is_scheduled(
    control_plane, nodes, scheduler, sidecar, namespace
):
    scheduler(**configuration_beside(sidecar()))
    pod = a_pod("hasty")
    pod["metadata"]["annotations"] = {"latencyHardConstraint": "fast"}
    create_pods(control_plane.admin, namespace, [pod])
    wait_until_bound(control_plane.admin, namespace, 1)
    where = f"/api/v1/namespaces/{namespace}/events"
    of_ours = {"fieldSelector": "reason=UnreadableAnnotation,involvedObject.name=hasty"}
    events = eventually(lambda: control_plane.admin.get(where, **of_ours)["items"], "the event")
    assert [(each["type"], each["source"]["component"]) for each in events] == [("Warning", "pilotfish")]
    assert events[0]["message"].startswith("annotation latencyHardConstraint is ignored: ")
