"""kube-controller-manager, kube-scheduler and KWOK, each under its own identity."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import httpx
import yaml

from tests.cluster.api import Object
from tests.cluster.apiserver import LOOPBACK, ApiServer
from tests.cluster.building import tool
from tests.cluster.identities import CONTROLLER_MANAGER, SCHEDULER
from tests.cluster.processes import Daemon, free_port

KWOK_ACCOUNT = ("kube-system", "kwok-controller")
SCHEDULER_TOOL = "kube-scheduler"
SCHEDULER_VARIABLE = "PILOTFISH_KUBE_SCHEDULER"  # the name of another one: tests.cluster.matrix
SCHEDULER_API = "kubescheduler.config.k8s.io/v1"

# KWOK leaves the readiness of a node with this label as it is: how a test makes a node NotReady.
DARK_LABEL = "pilotfish.io/dark"

# Requests a second: the defaults (50 for the scheduler, 20 for the controllers) would be what a test measures.
CLIENT_QPS = 1000


def start_controller_manager(cluster: ApiServer, grace_period_s: int = 120) -> Daemon:
    """KWOK's heartbeat comes every 20 to 45 s, later on a busy machine: the grace period must be longer."""
    port, kubeconfig = free_port(), cluster.kubeconfig_of(CONTROLLER_MANAGER)
    options = [
        f"--kubeconfig={kubeconfig}",
        *_secure_port(cluster, port, kubeconfig),
        "--leader-elect=false",
        "--use-service-account-credentials=true",  # each controller with its own role, as clusters do
        f"--service-account-private-key-file={cluster.service_accounts.key}",
        f"--root-ca-file={cluster.authority.certificate}",
        f"--node-monitor-grace-period={grace_period_s}s",
        f"--kube-api-qps={CLIENT_QPS}",
        f"--kube-api-burst={CLIENT_QPS}",
    ]
    daemon = cluster.processes.start("kube-controller-manager", tool("kube-controller-manager"), options)
    daemon.wait_until(lambda: _answers(cluster, port))
    return daemon


def start_scheduler(
    cluster: ApiServer, election: Object | None = None, program: str = "", **configuration: object
) -> Daemon:
    """kube-scheduler with these fields of KubeSchedulerConfiguration, for example ``extenders``.

    Without ``election`` (its ``leaderElection``) it is alone and leads at once. ``program``: another scheduler.
    """
    program = program or os.environ.get(SCHEDULER_VARIABLE, SCHEDULER_TOOL)
    port, kubeconfig = free_port(), cluster.kubeconfig_of(SCHEDULER)
    configuration["leaderElection"] = election or {"leaderElect": False}
    written = _scheduler_configuration(cluster.folder / f"kube-scheduler-{port}.yaml", kubeconfig, configuration)
    options = [f"--config={written}", *_secure_port(cluster, port, kubeconfig), "--v=2"]
    daemon = cluster.processes.start("kube-scheduler", tool(program), options)
    daemon.wait_until(lambda: _answers(cluster, port))
    return daemon


def start_kwok(cluster: ApiServer, heartbeat_s: int | None = None) -> Daemon:
    """KWOK plays every kubelet, with the roles and stages of its own release; nodes report as often as is said."""
    cluster.admin.apply_file(tool("kwok-roles.yaml"))
    port = free_port()
    options = [
        f"--kubeconfig={cluster.kubeconfig_of_service_account(*KWOK_ACCOUNT)}",
        f"--config={_stages(cluster.folder / 'kwok-stages.yaml', heartbeat_s)}",
        "--manage-all-nodes=true",
        f"--server-address={LOOPBACK}:{port}",
    ]
    daemon = cluster.processes.start("kwok", tool("kwok"), options)
    daemon.wait_until(lambda: _says_ok(f"http://{LOOPBACK}:{port}/healthz", verify=True))
    return daemon


def _stages(path: Path, heartbeat_s: int | None) -> Path:
    stages = {stage["metadata"]["name"]: stage for stage in yaml.safe_load_all(tool("kwok-stages.yaml").read_text())}
    dark = {"key": f'.metadata.labels["{DARK_LABEL}"]', "operator": "DoesNotExist"}
    stages["node-initialize"]["spec"]["selector"]["matchExpressions"].append(dark)
    if heartbeat_s is not None:
        every_ms = 1000 * heartbeat_s
        delay = {"durationMilliseconds": every_ms, "jitterDurationMilliseconds": every_ms * 6 // 5}
        stages["node-heartbeat"]["spec"]["delay"] = delay
    path.write_text(yaml.safe_dump_all(stages.values()))
    return path


def _scheduler_configuration(path: Path, kubeconfig: Path, given: Object) -> Path:
    ours = {
        "apiVersion": SCHEDULER_API,
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": CLIENT_QPS, "burst": CLIENT_QPS},
    }
    path.write_text(yaml.safe_dump(given | ours))
    return path


def _secure_port(cluster: ApiServer, port: int, kubeconfig: Path) -> list[str]:
    return [
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={cluster.serving.certificate}",
        f"--tls-private-key-file={cluster.serving.key}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
    ]


def _answers(cluster: ApiServer, port: int) -> bool:
    trust = ssl.create_default_context(cafile=str(cluster.authority.certificate))
    return _says_ok(f"https://{LOOPBACK}:{port}/healthz", verify=trust)


def _says_ok(url: str, verify: ssl.SSLContext | bool) -> bool:
    try:
        return httpx.get(url, verify=verify, timeout=2.0, trust_env=False).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
