"""The schedulers that are compared: the same kube-scheduler, beside nobody, a constant answer, or Pilotfish.

Pilotfish's form is what ``pilotfish scheduler-config`` prints. The constant extender gets the same configuration with
its own address, so both are asked the same verbs about the same names. The same one, late, computes nothing more: it
tells what time costs from what work costs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.extender.client import free_port, wait_until_ready
from tests.cluster.api import eventually
from tests.cluster.apiserver import ApiServer
from tests.cluster.processes import Daemon
from tests.cluster.sidecar import Sidecar, configuration_beside, start_sidecar

NONE, CONSTANT, POLICY, FULL_NODES = "no extender", "constant extender", "policy", "policy, full nodes"
LATE_MS = 2
LATE = f"constant extender, {LATE_MS} ms late"
RANK_ONLY = "policy, rank only"
FORMS = (NONE, CONSTANT, LATE, POLICY, RANK_ONLY, FULL_NODES)
MAX_NODES = 10_000
PATIENCE = "30s"  # full nodes of a large cluster take longer than the shipped httpTimeout allows


@dataclass(frozen=True)
class Beside:
    """What stands beside kube-scheduler: its configuration, and the process that answers it."""

    configuration: dict[str, Any]
    daemon: Daemon | None = None
    sidecar: Sidecar | None = None


@contextmanager
def beside(form: str, cluster: ApiServer, prometheus: str) -> Iterator[Beside]:
    """Started, ready, and stopped afterwards."""
    started = _started(form, cluster, prometheus)
    try:
        yield started
    finally:
        if started.daemon is not None:
            cluster.processes.stop(started.daemon)


def _started(form: str, cluster: ApiServer, prometheus: str) -> Beside:
    if form == NONE:
        return Beside({})
    if form in (CONSTANT, LATE):
        constant = _start_constant(cluster, LATE_MS if form == LATE else 0)
        return Beside(configuration_of(form, constant), constant.daemon)
    sidecar = start_sidecar(cluster, prometheus__address=prometheus)
    eventually(lambda: _has_metrics(sidecar), "metrics of every node at the sidecar", within_s=60.0, every_s=0.5)
    return Beside(configuration_of(form, sidecar), sidecar.daemon, sidecar)


def _has_metrics(sidecar: Sidecar) -> bool:
    """Without them a heuristic answers, and the policy is not what is timed."""
    return all(node["rx_mbps"] is not None for node in sidecar.state()["nodes"])


def configuration_of(form: str, extender: Sidecar) -> dict[str, Any]:
    """What is shipped, but for the verbs that are asked and the form in which nodes are sent."""
    configuration = configuration_beside(extender, *(["--rank-only"] if form == RANK_ONLY else []))
    if form == FULL_NODES:
        configuration["extenders"][0] |= {"nodeCacheCapable": False, "httpTimeout": PATIENCE}
    return configuration


def _start_constant(cluster: ApiServer, late_ms: int) -> Sidecar:
    port = free_port()
    options = ["-m", "benchmarks.extender.server", "constant", str(port), str(MAX_NODES), str(late_ms)]
    daemon = cluster.processes.start("constant", Path(sys.executable), options)
    wait_until_ready(daemon.process, port)
    return Sidecar(daemon, port)
