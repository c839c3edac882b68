"""The sidecar as users run it: the process ``pilotfish serve``, with a kubeconfig and a role of its own."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.cluster.api import Object
from tests.cluster.apiserver import LOOPBACK, ApiServer
from tests.cluster.processes import Daemon, free_port

NAMESPACE = "kube-system"
ACCOUNT = "pilotfish"

# The roles that operators apply, and no other: what is missing there is missing here.
ROLES = Path(__file__).parents[2] / "deploy" / "rbac.yaml"
PILOTFISH = (sys.executable, "-m", "pilotfish")


@dataclass(frozen=True)
class Sidecar:
    daemon: Daemon
    port: int

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def decisions(self, limit: int = 1000) -> list[Object]:
        """Newest first."""
        found: list[Object] = self._get(f"/v1/decisions?limit={limit}").json()["decisions"]
        return found

    def state(self) -> Object:
        known: Object = self._get("/v1/state").json()
        return known

    def is_ready(self) -> bool:
        try:
            return self._get("/readyz").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def _get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=5.0, trust_env=False)


def start_sidecar(cluster: ApiServer, port: int | None = None, **settings: Any) -> Sidecar:
    """``settings`` as in docs/settings.md: ``rollout__mode="shadow"``."""
    port = port or free_port()
    environment = {f"PILOTFISH_{name.upper()}": str(value) for name, value in settings.items()}
    environment |= {
        "PILOTFISH_CLUSTER__SOURCE": "kubernetes",
        "PILOTFISH_CLUSTER__KUBECONFIG": str(_kubeconfig(cluster)),
    }
    python, *command = PILOTFISH
    options = [*command, "serve", "--port", str(port)]
    sidecar = Sidecar(cluster.processes.start("pilotfish", Path(python), options, environment), port)
    sidecar.daemon.wait_until(sidecar.is_ready)
    return sidecar


def configuration_beside(sidecar: Sidecar, *options: str) -> Object:
    return configuration_for(sidecar.url, *options)


def configuration_for(url: str, *options: str) -> Object:
    """What an operator gives kube-scheduler: the output of ``pilotfish scheduler-config``."""
    printed = subprocess.check_output([*PILOTFISH, "scheduler-config", "--url", url, *options], text=True)
    configuration: Object = yaml.safe_load(printed)
    return configuration


def _kubeconfig(cluster: ApiServer) -> Path:
    cluster.admin.apply_file(ROLES)
    return cluster.kubeconfig_of_service_account(NAMESPACE, ACCOUNT)
