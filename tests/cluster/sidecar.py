"""The sidecar as users run it: the process ``pilotfish serve``, with a kubeconfig and a role of its own."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.cluster.api import Object
from tests.cluster.apiserver import LOOPBACK, ApiServer, create_service_account
from tests.cluster.processes import Daemon, free_port

NAMESPACE = "kube-system"
ACCOUNT = "pilotfish"
WEIGHT = 10  # as deploy/scheduler-config.yaml has it

RBAC = "rbac.authorization.k8s.io"
# All that scoring needs: to see nodes and pods, and never a change.
ROLES: list[Object] = [
    {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ACCOUNT},
        "rules": [
            {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]},
            {"apiGroups": ["metrics.k8s.io"], "resources": ["nodes", "pods"], "verbs": ["get", "list"]},
        ],
    },
    {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    },
]


@dataclass(frozen=True)
class Sidecar:
    daemon: Daemon
    port: int

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def decisions(self) -> list[Object]:
        """Newest first."""
        found: list[Object] = self._get("/v1/decisions?limit=1000").json()["decisions"]
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
    options = ["-m", "pilotfish", "serve", "--port", str(port)]
    sidecar = Sidecar(cluster.processes.start("pilotfish", Path(sys.executable), options, environment), port)
    sidecar.daemon.wait_until(sidecar.is_ready)
    return sidecar


def extender_of(sidecar: Sidecar) -> Object:
    """What an operator adds to the scheduler's configuration."""
    return {
        "urlPrefix": f"{sidecar.url}/extender",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": WEIGHT,
        "nodeCacheCapable": True,
        "ignorable": True,
        "enableHTTPS": False,
        "httpTimeout": "1s",
    }


def _kubeconfig(cluster: ApiServer) -> Path:
    create_service_account(cluster.admin, NAMESPACE, ACCOUNT)
    cluster.admin.apply(ROLES)
    return cluster.kubeconfig_of_service_account(NAMESPACE, ACCOUNT)
