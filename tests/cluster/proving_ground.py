"""A closed loop that may be broken: every part real, each under a supervisor that stands for the kubelet."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from envs.workloads.scenario import load_scenario
from envs.workloads.synthetic import make_tape
from envs.workloads.tape import Tape
from models.manifest import RELEASED
from tests.cluster.api import Api, Object, eventually
from tests.cluster.apiserver import ApiServer, start_api_server
from tests.cluster.controllers import start_controller_manager, start_kwok, start_scheduler
from tests.cluster.exporter import Exporter
from tests.cluster.objects import create_nodes
from tests.cluster.processes import Processes
from tests.cluster.scraping import start_prometheus
from tests.cluster.sidecar import Sidecar, configuration_beside, start_sidecar
from tests.cluster.supervising import Kept, Supervisor
from tests.cluster.tape_objects import node_of
from tests.cluster.truth import Truth

NAMESPACE = "proving-ground"
SPEED = 4.0  # tape seconds a second

# Old soon, so that a Prometheus that is away for seconds is missed: 90 s by default.
STALE_AFTER_S = 5.0
METRICS_WINDOW_S = 10
LOOK_AT_FILES_EVERY_S = 0.5
POLICY = "policy"

# Otherwise Prometheus itself refuses right samples after those of a clock that was ahead, until time has caught up.
OUT_OF_ORDER = "15m"


@dataclass(frozen=True)
class ProvingGround:
    cluster: ApiServer
    tape: Tape
    nodes: list[str]
    exporter: Exporter
    sidecar: Sidecar
    model: Path  # the folder that the sidecar loads its policy from
    parts: dict[str, Kept]

    @property
    def admin(self) -> Api:
        return self.cluster.admin

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{NAMESPACE}/pods"

    def decisions(self, limit: int = 50) -> list[Object]:
        """Newest first; none while nobody answers."""
        try:
            return self.sidecar.decisions(limit)
        except httpx.TransportError:
            return []

    def node_as_the_sidecar_knows_it(self, name: str) -> Object | None:
        try:
            known = self.sidecar.state()["nodes"]
        except (httpx.TransportError, KeyError):
            return None
        return next((node for node in known if node["name"] == name), {})

    def model_problems(self) -> list[str]:
        try:
            problems: list[str] = self.sidecar.state()["models"]["problems"]
        except (httpx.TransportError, KeyError):
            return []
        return problems

    def clear(self) -> None:
        """Every pod gone: the next fault begins with empty nodes."""
        self.admin.delete(self.pods, gracePeriodSeconds="0")
        eventually(lambda: not self.admin.get(self.pods)["items"], "the pods of the last fault gone")


@contextmanager
def proving_ground(processes: Processes) -> Iterator[ProvingGround]:
    cluster = start_api_server(processes)
    supervisor = Supervisor(processes)
    parts = {daemon.name: supervisor.keep(daemon) for daemon in (cluster.etcd, cluster.daemon)}
    for start in (start_controller_manager, start_kwok):
        daemon = start(cluster)
        parts[daemon.name] = supervisor.keep(daemon)
    tape = make_tape(load_scenario("bursts"), 0, 0)
    cluster.create_namespace(NAMESPACE)
    nodes = create_nodes(cluster.admin, (node_of(tape, node) for node in range(tape.node_slots)))
    exporter = Exporter(Truth(tape, SPEED), cluster.admin, NAMESPACE)
    exporter.start()
    prometheus = start_prometheus(processes, exporter.address, nodes, out_of_order=OUT_OF_ORDER)
    model = Path(shutil.copytree(RELEASED / "default", processes.folder / "model"))
    sidecar = _start_sidecar(cluster, prometheus.url, model)
    scheduler = start_scheduler(cluster, **configuration_beside(sidecar))
    for daemon in (prometheus.daemon, sidecar.daemon, scheduler):
        parts[daemon.name] = supervisor.keep(daemon)
    supervisor.start()
    try:
        yield ProvingGround(cluster, tape, nodes, exporter, sidecar, model, parts)
    finally:
        supervisor.stop()
        exporter.stop()


def _start_sidecar(cluster: ApiServer, prometheus: str, model: Path) -> Sidecar:
    return start_sidecar(
        cluster,
        prometheus__address=prometheus,
        prometheus__interval_s=1,
        prometheus__window_s=METRICS_WINDOW_S,
        assumed__window_s=METRICS_WINDOW_S,
        ladder__stale_after_s=STALE_AFTER_S,
        model__folder=model,
        reload__every_s=LOOK_AT_FILES_EVERY_S,
    )
