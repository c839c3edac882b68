"""A small closed loop that answers within a second or two: few nodes, one of them busy, and quick scrapes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import yaml

from envs.workloads.scenario import Span, load_scenario
from envs.workloads.synthetic import make_tape
from envs.workloads.tape import Tape
from serving.manifests.roles import TRAINING_NAME, training_rbac_text
from serving.settings import Settings
from tests.cluster.api import Api, eventually
from tests.cluster.apiserver import ApiServer
from tests.cluster.exporter import Exporter
from tests.cluster.objects import NODES, create_nodes
from tests.cluster.scraping import Prometheus, start_prometheus
from tests.cluster.tape_objects import node_of, pod_of
from tests.cluster.truth import Truth

SCHEDULER_NAME = "pilotfish-training"
NODE_COUNT = 4
BUSY = 0  # this node's NIC is nearly full before any pod comes
NIC_MBPS, POD_MBPS = 1000.0, 150.0
SCRAPE_S, WINDOW_S = 0.5, 5.0  # a shorter window shows a counter that moves five times a second by chance
SPEED = 10.0  # a tick of the tape every fifth of a second
RECEIVED = "sum by (node) (rate(node_network_receive_bytes_total[2s]))"


def quick_tape() -> Tape:
    """Four equal nodes, the first one busy; every pod the same, and its annotation is true."""
    world = load_scenario("bursts")
    few = world.model_copy(update={"nodes": world.nodes.model_copy(update={"count": Span(low=4, high=4)})})
    given = make_tape(few, 0, 0)
    busy = np.where(np.arange(NODE_COUNT) == BUSY, 0.97, 0.05)

    def all_pods(value: float) -> np.ndarray:
        return np.full_like(given.pod_rx_mbps, value)

    return replace(
        given,
        node_nic_mbps=np.full(NODE_COUNT, NIC_MBPS),
        node_nic_known=np.ones(NODE_COUNT, dtype=np.bool_),
        background_cpu_ratio=np.full_like(given.background_cpu_ratio, 0.1),
        background_rx_ratio=np.broadcast_to(busy, given.background_rx_ratio.shape).astype(np.float32),
        background_tx_ratio=np.full_like(given.background_tx_ratio, 0.05),
        app_load=np.ones_like(given.app_load),
        app_sibling_mbps=np.zeros_like(given.app_sibling_mbps),
        pod_rx_mbps=all_pods(POD_MBPS),
        pod_tx_mbps=all_pods(10.0),
        pod_annotated_mbps=all_pods(POD_MBPS),
        pod_cpu_request_millicores=all_pods(100.0),
        pod_memory_request_mib=all_pods(128.0),
    )


@dataclass(frozen=True)
class Loop:
    """Real parts all around: API server, KWOK, exporter, Prometheus."""

    admin: Api
    namespace: str
    tape: Tape
    kubeconfig: Path
    prometheus: Prometheus

    @property
    def settings(self) -> dict[str, dict[str, object]]:
        """For the environment: quick enough for tests."""
        prometheus = {"address": self.prometheus.url, "interval_s": SCRAPE_S, "window_s": WINDOW_S, "pods": False}
        return {"cluster": {"kubeconfig": str(self.kubeconfig)}, "prometheus": prometheus}

    @property
    def pods_path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def create_pods(self, first: int, count: int, **spec: object) -> None:
        """They name our scheduler."""
        for number in range(first, first + count):
            pod = pod_of(self.tape, number)
            pod["spec"] |= {"schedulerName": SCHEDULER_NAME, **spec}
            self.admin.create(self.pods_path, pod)

    def where(self) -> dict[str, str]:
        pods = self.admin.get(self.pods_path)["items"]
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}

    def clear(self) -> None:
        self.admin.delete(self.pods_path, gracePeriodSeconds="0")
        eventually(lambda: not self.where(), "no pods")


@contextmanager
def live_loop(cluster: ApiServer, namespace: str) -> Iterator[Loop]:
    """The trainer's account has the roles that ``pilotfish rbac --training`` prints, and no others."""
    tape = quick_tape()
    names = create_nodes(cluster.admin, (node_of(tape, node) for node in range(NODE_COUNT)))
    cluster.admin.apply(yaml.safe_load_all(training_rbac_text(Settings())))
    kubeconfig = cluster.kubeconfig_of_service_account("kube-system", TRAINING_NAME)
    exporter = Exporter(Truth(tape, SPEED), cluster.admin, namespace)
    exporter.start()
    prometheus = start_prometheus(cluster.processes, exporter.address, names, SCRAPE_S)
    try:
        eventually(lambda: len(prometheus.values(RECEIVED)) == NODE_COUNT, "every node scraped twice")
        yield Loop(cluster.admin, namespace, tape, kubeconfig, prometheus)
    finally:
        cluster.processes.stop(prometheus.daemon)
        exporter.stop()
        cluster.admin.delete(NODES)
