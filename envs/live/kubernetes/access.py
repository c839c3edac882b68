"""Where the API server is and how to prove who we are: in a pod, or by a kubeconfig.

In a pod that is three files and two variables, read here: the client library would cost 25 MB of memory and half a
second for it. A kubeconfig may ask programs and identity providers for tokens, so there the library reads it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from yaml import YAMLError

from agent.errors import InputError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST_VARIABLE, PORT_VARIABLE = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
_MAX_TOKEN_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Access:
    """``authorization`` is asked before each request, because tokens rotate; it may read files and run programs."""

    url: str
    ca_file: str | None = None  # None: the certificates that the system trusts
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True
    server_name: str | None = None  # where the certificate names another host than the address does
    proxy: str | None = None
    authorization: Callable[[], str | None] = lambda: None

    def __repr__(self) -> str:
        return f"Access({self.url})"  # never a token


def find_access(
    kubeconfig: str = "",
    context: str = "",
    environment: Mapping[str, str] = os.environ,
    account: Path = SERVICE_ACCOUNT,
) -> Access:
    """The named kubeconfig; else the pod that we run in; else the kubeconfig that kubectl would use."""
    if not kubeconfig and not context and HOST_VARIABLE in environment:
        return in_cluster(environment, account)
    return from_kubeconfig(kubeconfig or environment.get("KUBECONFIG", "") or "~/.kube/config", context)


def in_cluster(environment: Mapping[str, str] = os.environ, account: Path = SERVICE_ACCOUNT) -> Access:
    """The service account of the pod that we run in."""
    host, port = environment.get(HOST_VARIABLE, ""), environment.get(PORT_VARIABLE, "443")
    ca_file, token_file = account / "ca.crt", account / "token"
    for file in (ca_file, token_file):
        if not file.is_file():
            raise InputError(f"{file} is missing: run in a pod with a service account, or name a kubeconfig")
    address = f"[{host}]" if ":" in host else host
    return Access(f"https://{address}:{port}", str(ca_file), authorization=lambda: _bearer(token_file))


def from_kubeconfig(file: str, context: str = "") -> Access:
    """A kubeconfig (or several, separated as in a path) as kubectl reads it."""
    from kubernetes.client.configuration import Configuration  # here, because it costs 25 MB and half a second
    from kubernetes.config import ConfigException, load_kube_config

    known = Configuration()
    paths = os.pathsep.join(str(Path(part).expanduser()) for part in file.split(os.pathsep))
    try:
        load_kube_config(paths, context or None, known, persist_config=False)  # type: ignore[no-untyped-call]
    except (ConfigException, YAMLError, OSError, ValueError, TypeError, KeyError, AttributeError) as why:
        reason = " ".join(str(why).split())
        raise InputError(
            f"kubeconfig {file}: {reason}; set PILOTFISH_CLUSTER__KUBECONFIG and PILOTFISH_CLUSTER__CONTEXT"
        ) from why

    def authorization() -> str | None:
        refresh: Callable[[Configuration], None] | None = known.refresh_api_key_hook
        try:
            if refresh is not None:
                refresh(known)
        except ConfigException as why:
            raise OSError(f"no token: {why}") from why
        return known.api_key.get("BearerToken")

    return Access(
        known.host.rstrip("/"),
        known.ssl_ca_cert,
        known.cert_file,
        known.key_file,
        known.verify_ssl,
        known.tls_server_name,
        known.proxy,
        authorization,
    )


def _bearer(token_file: Path) -> str:
    """The token as it is now: the kubelet replaces the file before it expires."""
    with token_file.open(encoding="ascii") as file:
        return f"Bearer {file.read(_MAX_TOKEN_BYTES).strip()}"
