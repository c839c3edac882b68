"""The container of the sidecar: without root, without a file system to write to, without a capability."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import PurePosixPath
from typing import Any

from serving.configuration import DEFAULT, Configuration, is_secret
from serving.manifests.text import Manifest
from serving.settings import Settings, variable

USER_ID = 10001  # the user of the image

# A request of kube-scheduler waits for us: no CPU limit, which would make it wait for nothing.
RESOURCES = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}}

SECURITY_CONTEXT = {
    "runAsNonRoot": True,
    "runAsUser": USER_ID,
    "runAsGroup": USER_ID,
    "readOnlyRootFilesystem": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def image_name() -> str:
    return f"pilotfish:{version('pilotfish')}"


def sidecar_container(configuration: Configuration, image: str, mounts: list[Manifest]) -> Manifest:
    return {
        "name": "pilotfish",
        "image": image,
        "args": ["serve"],
        "env": _environment(configuration),
        "securityContext": SECURITY_CONTEXT,
        "resources": RESOURCES,
        "startupProbe": _probe("/healthz", period_s=1, failures=60),
        "livenessProbe": _probe("/healthz", period_s=10, failures=3),
        "readinessProbe": _probe("/readyz", period_s=10, failures=3),
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, *mounts],
    }


def tmp_volume() -> Manifest:
    """The only place to write to, in memory and small."""
    return {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}


def secret_folders(settings: Settings) -> list[PurePosixPath]:
    """Where the files lie that prove who we are and who may ask, each folder once."""
    security, prometheus = settings.security, settings.prometheus
    ours = (security.certificate_file, security.key_file, security.client_ca_file, security.token_file)
    files = (*ours, prometheus.token_file, prometheus.ca_file)
    return sorted({PurePosixPath(file).parent for file in files if file})


def _probe(path: str, period_s: int, failures: int) -> Manifest:
    """From inside: the kubelet reaches no loopback of a pod, and has no client certificate."""
    return {
        "exec": {"command": ["python", "-m", "serving.healthcheck", path]},
        "periodSeconds": period_s,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _environment(configuration: Configuration) -> list[Manifest]:
    """Everything that is set where this is written is set the same way there; a secret is in a file or not at all."""
    given = [key for key, source in configuration.sources.items() if source != DEFAULT]
    values = {key: getattr(getattr(configuration.settings, key[0]), key[1]) for key in given}
    return [
        {"name": variable(key), "value": _text(value)}
        for key, value in values.items()
        if value is not None and not is_secret(key[1], value)
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
