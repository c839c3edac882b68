"""kube-scheduler itself: the image of Kubernetes, unchanged, with a configuration that names the sidecar."""

from __future__ import annotations

from collections.abc import Sequence

from serving.manifests.text import Manifest

IMAGE = "registry.k8s.io/kube-scheduler:v{}.0"
PORT = 10259
CONFIG_FOLDER, CONFIG_FILE = "/etc/kubernetes/pilotfish", "scheduler-config.yaml"


def scheduler_container(
    kubernetes: str, flags: Sequence[str] = (), mounts: Sequence[Manifest] = (), host: str | None = None
) -> Manifest:
    request: Manifest = {"path": "/healthz", "port": PORT, "scheme": "HTTPS"}
    request |= {"host": host} if host else {}
    probe = {"httpGet": request, "periodSeconds": 10, "timeoutSeconds": 15}
    return {
        "name": "kube-scheduler",
        "image": IMAGE.format(kubernetes.removeprefix("v")),
        "command": ["kube-scheduler", f"--config={CONFIG_FOLDER}/{CONFIG_FILE}", *flags],
        "resources": {"requests": {"cpu": "100m"}},
        "startupProbe": {**probe, "failureThreshold": 24},
        "livenessProbe": {**probe, "failureThreshold": 8},
        "volumeMounts": [{"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True}, *mounts],
    }
