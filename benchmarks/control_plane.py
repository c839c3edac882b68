"""A real control plane for a benchmark: the harness of ``tests/cluster``, for as long as the benchmark needs it.

Benchmarks may import ``tests.cluster``, because both live in the repository only; ``benchmarks.report`` has the line
for whoever has one without the other.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from agent.errors import InputError
from tests.cluster.apiserver import ApiServer, start_api_server
from tests.cluster.building import PROGRAMS, ToolMissing, tool
from tests.cluster.controllers import start_controller_manager, start_kwok
from tests.cluster.processes import Processes

REPORT_EVERY_S = 300  # nodeStatusReportFrequency of a kubelet


@contextmanager
def control_plane(heartbeats: bool = True) -> Iterator[ApiServer]:
    """etcd, kube-apiserver, kube-controller-manager and KWOK; the logs stay only if something goes wrong.

    KWOK's nodes report every half minute. Thousands of them would keep the machine busy with that alone: without
    ``heartbeats`` they report every five minutes, as a kubelet with nothing new to say.
    """
    _check_that_all_is_built()
    folder = Path(mkdtemp(prefix="pilotfish-control-plane-"))
    processes = Processes(folder)
    try:
        yield _started(processes, heartbeats)
    except BaseException as why:
        why.add_note(f"logs of all parts are kept in {folder}")
        raise
    finally:
        processes.stop_all()
    shutil.rmtree(folder)


def _check_that_all_is_built() -> None:
    try:
        for program in PROGRAMS:
            tool(program.name)
    except ToolMissing as missing:
        raise InputError(str(missing)) from missing


def _started(processes: Processes, heartbeats: bool) -> ApiServer:
    cluster = start_api_server(processes)
    if heartbeats:
        start_controller_manager(cluster)
        start_kwok(cluster)
    else:
        start_controller_manager(cluster, grace_period_s=2 * REPORT_EVERY_S)
        start_kwok(cluster, REPORT_EVERY_S)
    return cluster
