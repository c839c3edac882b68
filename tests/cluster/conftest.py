"""A real control plane for the tests of this folder, started once; all run in one worker (tests/conftest.py)."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.cluster.apiserver import ApiServer, start_api_server
from tests.cluster.controllers import start_controller_manager, start_kwok, start_scheduler
from tests.cluster.objects import NODES, a_node, create_nodes
from tests.cluster.processes import Daemon, Processes

LOGS_VARIABLE = "PILOTFISH_CLUSTER_LOGS"
NewProcesses = Callable[[str], AbstractContextManager[Processes]]
FOLDER = pytest.StashKey[Path]()
FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever starts a program counts as slow: `make test-fast` shall work before anything is built."""
    for item in items:
        if "processes" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def new_processes(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> NewProcesses:
    """Programs by themselves; their logs are kept when a test fails, or where ``PILOTFISH_CLUSTER_LOGS`` says."""
    kept = os.environ.get(LOGS_VARIABLE)

    @contextmanager
    def started(name: str) -> Iterator[Processes]:
        folder = Path(kept).absolute() / name if kept else tmp_path_factory.mktemp(name)
        folder.mkdir(parents=True, exist_ok=True)
        pytestconfig.stash[FOLDER] = folder
        running = Processes(folder)
        try:
            yield running
        finally:
            running.stop_all()
        if not kept and not pytestconfig.stash.get(FAILED, False):
            shutil.rmtree(folder)

    return started


@pytest.fixture(scope="session")
def processes(new_processes: NewProcesses) -> Iterator[Processes]:
    """The programs that the tests of this folder share."""
    with new_processes("cluster") as running:
        yield running


@pytest.fixture(scope="session")
def api_server(processes: Processes) -> ApiServer:
    """etcd and kube-apiserver, with RBAC and TLS; no controllers, no scheduler, no nodes."""
    return start_api_server(processes)


@pytest.fixture(scope="session")
def control_plane(api_server: ApiServer) -> ApiServer:
    """The API server with kube-controller-manager and KWOK beside it; a test brings nodes and a scheduler."""
    start_controller_manager(api_server)
    start_kwok(api_server)
    return api_server


@pytest.fixture
def nodes(control_plane: ApiServer) -> Iterator[list[str]]:
    """Four Ready nodes in two zones, the only ones there are."""
    names = create_nodes(control_plane.admin, (a_node(f"node-{index}", zone="ab"[index % 2]) for index in range(4)))
    yield names
    control_plane.admin.delete(NODES)


@pytest.fixture
def scheduler(control_plane: ApiServer) -> Iterator[Callable[..., Daemon]]:
    """Starts kube-scheduler with the fields of KubeSchedulerConfiguration that a test gives; stops it afterwards."""
    started: list[Daemon] = []

    def start(**configuration: object) -> Daemon:
        started.append(start_scheduler(control_plane, **configuration))
        return started[-1]

    yield start
    for daemon in started:
        control_plane.processes.stop(daemon)


@pytest.fixture
def namespace(request: pytest.FixtureRequest, api_server: ApiServer) -> Iterator[str]:
    """A namespace of the test's own; its pods are gone afterwards, so that they fill no node."""
    name = api_server.create_namespace(_namespace_name(request.node.name))
    yield name
    api_server.admin.delete(f"/api/v1/namespaces/{name}/pods", gracePeriodSeconds="0")
    api_server.admin.delete(f"/api/v1/namespaces/{name}")


def _namespace_name(test: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_").lower())[:55].strip("-") + f"-{os.urandom(3).hex()}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test says where the logs are."""
    report = yield
    folder = item.config.stash.get(FOLDER, None)
    if report.failed and folder is not None:
        item.config.stash[FAILED] = True
        report.sections.append(("control plane", f"logs of all parts are kept in {folder}"))
    return report
