"""The static pod of a control plane, kube-scheduler as kubeadm starts it, with Pilotfish beside it.

A static pod cannot name a Secret, a ConfigMap or a service account: its files are those of the host.
"""

from __future__ import annotations

from serving.configuration import Configuration
from serving.manifests.container import USER_ID, secret_folders, sidecar_container, tmp_volume
from serving.manifests.scheduler_config import SchedulerOptions
from serving.manifests.scheduler_container import CONFIG_FILE, CONFIG_FOLDER, scheduler_container
from serving.manifests.text import Manifest, documents
from serving.settings import variable

LOOPBACK = "127.0.0.1"
SCHEDULER_KUBECONFIG = "/etc/kubernetes/scheduler.conf"

ABOUT = f"""
In place of /etc/kubernetes/manifests/kube-scheduler.yaml, on a control plane that kubeadm made. The host must have,
readable for the user {USER_ID}:
  {CONFIG_FOLDER}/{CONFIG_FILE}, from: pilotfish scheduler-config --kubeconfig {SCHEDULER_KUBECONFIG}
  {CONFIG_FOLDER}/kubeconfig, of a user with the rights that pilotfish rbac gives
Written by: pilotfish scheduler-config --static-pod
"""


def static_pod_text(configuration: Configuration, options: SchedulerOptions, image: str) -> str:
    metadata = {
        "name": "kube-scheduler",
        "namespace": "kube-system",
        "labels": {"component": "kube-scheduler", "tier": "control-plane"},
    }
    spec = {
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "containers": [_scheduler(options), _sidecar(configuration, image)],
        "volumes": [
            *(_of_the_host(name, folder, "Directory") for name, folder in _folders(configuration).items()),
            _of_the_host("scheduler-kubeconfig", SCHEDULER_KUBECONFIG, "File"),
            tmp_volume(),
        ],
    }
    return documents(ABOUT, [{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}])


def _scheduler(options: SchedulerOptions) -> Manifest:
    flags = [f"--{who}-kubeconfig={SCHEDULER_KUBECONFIG}" for who in ("authentication", "authorization")]
    mount = {"name": "scheduler-kubeconfig", "mountPath": SCHEDULER_KUBECONFIG, "readOnly": True}
    return scheduler_container(options.kubernetes, [f"--bind-address={LOOPBACK}", *flags], [mount], LOOPBACK)


def _sidecar(configuration: Configuration, image: str) -> Manifest:
    folders = _folders(configuration)
    mounts = [{"name": name, "mountPath": folder, "readOnly": True} for name, folder in folders.items()]
    container = sidecar_container(configuration, image, mounts)
    container["env"].append({"name": variable(("cluster", "kubeconfig")), "value": f"{CONFIG_FOLDER}/kubeconfig"})
    return container


def _folders(configuration: Configuration) -> dict[str, str]:
    folders = {folder.name: str(folder) for folder in secret_folders(configuration.settings)}
    return {"config": CONFIG_FOLDER, **{name: folder for name, folder in folders.items() if folder != CONFIG_FOLDER}}


def _of_the_host(name: str, path: str, kind: str) -> Manifest:
    return {"name": name, "hostPath": {"path": path, "type": kind}}
