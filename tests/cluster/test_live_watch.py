"""The watch over a real kube-apiserver, with the rights that docs/live.md asks for and no others."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from agent.cluster import ClusterState, Pod
from envs.live.binding import Binding, BindingRefused
from envs.live.cluster import LiveCluster
from envs.live.cluster_settings import ClusterSettings
from envs.live.kubernetes.access import Access, from_kubeconfig
from envs.live.kubernetes.api import ApiServer as Client
from envs.live.kubernetes.binding import ApiBinder
from envs.live.kubernetes.connecting import live_cluster
from envs.live.ledger import Ledger
from envs.live.metrics import NoMetrics
from envs.live.snapshot import Snapshot
from tests.cluster.api import eventually
from tests.cluster.apiserver import ApiServer, create_service_account, start_api_server
from tests.cluster.objects import NODES, a_node, a_pod, cordon
from tests.cluster.processes import Processes

ACCOUNT, NAMESPACE = "watcher", "kube-system"
LIVE_DOC = Path(__file__).parents[2] / "docs" / "live.md"
VISIBLE_WITHIN_S = 1.0
PAGE_ITEMS = 3


class Heard:
    """What the listeners are told."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, str]] = []
        self.gone: list[str] = []

    def on_bound(self, pod: Pod, node: str, snapshot: Snapshot) -> None:
        self.bound.append((pod.name, node))

    def on_gone(self, pod: Pod, node: str, snapshot: Snapshot) -> None:
        self.gone.append(pod.uid)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server of this file's own: it is killed here."""
    processes = Processes(tmp_path_factory.mktemp("watched"))
    yield start_api_server(processes)
    processes.stop_all()


@pytest.fixture(scope="module")
def access(server: ApiServer) -> Access:
    (role,) = [
        each
        for block in re.findall(r"```yaml\n(.*?)```", LIVE_DOC.read_text(), re.S)
        if (each := yaml.safe_load(block))["kind"] == "ClusterRole"
    ]
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    }
    server.admin.apply([role, binding])
    create_service_account(server.admin, NAMESPACE, ACCOUNT)
    return from_kubeconfig(str(server.kubeconfig_of_service_account(NAMESPACE, ACCOUNT)))


@pytest.fixture
def pods(server: ApiServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """Two nodes, and the path of the pods of a namespace of the test's own."""
    for name in ("a", "b"):
        server.admin.create(NODES, a_node(name))
    namespace = server.create_namespace(f"watch-{abs(hash(request.node.name)) % 10**9}")
    path = f"/api/v1/namespaces/{namespace}/pods"
    yield path
    server.admin.delete(path, gracePeriodSeconds="0")
    server.admin.delete(NODES)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def cluster(access: Access, pods: str, heard: Heard) -> Iterator[LiveCluster]:
    settings = ClusterSettings(page_items=PAGE_ITEMS, watch_s=5.0)
    live = live_cluster(settings, Client(access), Ledger(), NoMetrics(), time.monotonic, [heard])
    live.start()
    eventually(lambda: live.snapshot() is not None, "a first snapshot")
    yield live
    live.stop()


def seen(cluster: LiveCluster, holds: Callable[[Snapshot, ClusterState], bool], what: str, within_s: float) -> None:
    def look() -> bool:
        snapshot = cluster.snapshot()
        return snapshot is not None and bool(holds(snapshot, snapshot.state))

    eventually(look, what, within_s, every_s=0.02)


def running_on(node: str, count: int) -> Callable[[Snapshot, ClusterState], bool]:
    return lambda snapshot, state: state.pods_running[snapshot.index_of[node]] == count


def bind(access: Access, pods: str, name: str, node: str, uid: str) -> None:
    ApiBinder(Client(access)).bind(Binding(pods.split("/")[4], name, uid, node))


def test_nodes_and_pods_are_seen_as_they_change(server, access, cluster, pods, heard):
    eventually(lambda: not cluster.problems(), "the watches are open")
    created = server.admin.create(pods, a_pod("p1", cpu="2"))
    seen(cluster, lambda snapshot, _: snapshot.queue_length == 1, "the pod waits", VISIBLE_WITHIN_S)
    bind(access, pods, "p1", "b", created["metadata"]["uid"])
    seen(cluster, running_on("b", 1), "the pod runs", VISIBLE_WITHIN_S)
    assert cluster.snapshot().state.cpu_requested_millicores.tolist() == [0.0, 2000.0]
    eventually(lambda: heard.bound == [("p1", "b")], "the listeners know", VISIBLE_WITHIN_S)
    cordon(server.admin, "a")
    seen(cluster, lambda _, state: not state.schedulable[0], "the node is cordoned", VISIBLE_WITHIN_S)
    server.admin.delete(f"{pods}/p1", gracePeriodSeconds="0")
    seen(cluster, running_on("b", 0), "the pod is gone", VISIBLE_WITHIN_S)
    eventually(lambda: heard.gone == [created["metadata"]["uid"]], "the listeners know", VISIBLE_WITHIN_S)
    server.admin.delete(f"{NODES}/b")
    seen(cluster, lambda snapshot, _: snapshot.nodes.names == ("a",), "the node is gone", VISIBLE_WITHIN_S)


def test_many_pages_are_joined_and_short_watches_lose_nothing(server, cluster, pods):
    for index in range(3 * PAGE_ITEMS):
        server.admin.create(pods, a_pod(f"p{index}", nodeName="a"))
        time.sleep(0.7)  # watches last 5 s: some end in between
    seen(cluster, running_on("a", 3 * PAGE_ITEMS), "every pod", VISIBLE_WITHIN_S)
    assert not cluster.problems()


def test_pod_is_bound_once_and_by_its_uid(server, access, pods):
    created = server.admin.create(pods, a_pod("p1"))
    with pytest.raises(BindingRefused, match="409"):
        bind(access, pods, "p1", "a", "another-uid")
    bind(access, pods, "p1", "a", created["metadata"]["uid"])
    with pytest.raises(BindingRefused, match="409"):
        bind(access, pods, "p1", "b", created["metadata"]["uid"])


def test_killed_api_server_is_said_and_what_happened_meanwhile_is_found(server, access, cluster, pods, heard):
    server.admin.create(pods, a_pod("before", nodeName="a"))
    seen(cluster, running_on("a", 1), "a pod", VISIBLE_WITHIN_S)
    server.daemon.kill()
    eventually(lambda: cluster.problems(), "it is said")
    server.processes.start_again(server.daemon).wait_until(server.admin.is_ready)
    server.admin.create(pods, a_pod("after", nodeName="a"))
    server.admin.delete(f"{pods}/before", gracePeriodSeconds="0")
    eventually(lambda: not cluster.problems(), "the watches are open again", within_s=40.0)
    eventually(lambda: ("after", "a") in heard.bound, "the binding is news", within_s=5.0)
    eventually(lambda: len(heard.gone) == 1, "so is the pod that is gone", within_s=5.0)
    seen(cluster, running_on("a", 1), "the truth after the break", VISIBLE_WITHIN_S)


def test_without_the_right_to_see_pods_it_says_so(server, pods):
    create_service_account(server.admin, NAMESPACE, "stranger")
    nobody = from_kubeconfig(str(server.kubeconfig_of_service_account(NAMESPACE, "stranger")))
    live = live_cluster(ClusterSettings(), Client(nobody), Ledger(), NoMetrics(), time.monotonic)
    live.start()
    eventually(lambda: any("403" in each and "pods" in each for each in live.problems()), "the problem is said")
    assert live.snapshot() is None
    live.stop()
