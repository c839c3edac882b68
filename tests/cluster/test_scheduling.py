"""The whole control plane: nodes become Ready, and an unmodified kube-scheduler binds pods to them."""

from tests.cluster.api import eventually
from tests.cluster.objects import a_pod, cordon, create_pods, usable_nodes, wait_until_bound


def test_every_kwok_node_is_ready(control_plane, nodes, say):
    parts = control_plane.processes.daemons
    times = [f"{part.name} {part.ready_after_s:.1f} s" for part in parts if part.ready_after_s]
    say(f"control plane, time until each part was ready: {', '.join(times)}")
    assert set(nodes) <= usable_nodes(control_plane.admin)


def test_the_default_scheduler_binds_a_pod_and_kwok_runs_it(control_plane, nodes, scheduler, namespace):
    scheduler()
    create_pods(control_plane.admin, namespace, [a_pod("first")])
    assert wait_until_bound(control_plane.admin, namespace, 1)["first"] in nodes
    path = f"/api/v1/namespaces/{namespace}/pods/first"
    eventually(lambda: control_plane.admin.get(path)["status"]["phase"] == "Running", "the pod running")


def test_a_cordoned_node_gets_no_pod(control_plane, nodes, scheduler, namespace):
    open_node, *closed = nodes
    for name in closed:
        cordon(control_plane.admin, name)
    scheduler()
    create_pods(control_plane.admin, namespace, (a_pod(f"pod-{index}") for index in range(5)))
    assert set(wait_until_bound(control_plane.admin, namespace, 5).values()) == {open_node}
