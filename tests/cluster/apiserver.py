"""etcd and kube-apiserver: the part of a cluster that everything else talks to."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.api import Api, Refused
from tests.cluster.building import tool
from tests.cluster.identities import ADMIN, Authority, KeyPair, Tokens, service_account_keys, write_kubeconfig
from tests.cluster.processes import Daemon, Processes, free_port

LOOPBACK = "127.0.0.1"
CONFLICT = 409


@dataclass(frozen=True)
class ApiServer:
    """A running API server, with what others need to join it."""

    url: str
    authority: Authority
    serving: KeyPair  # for every part that listens on the loopback address
    service_accounts: KeyPair
    tokens: Tokens
    processes: Processes
    admin: Api
    etcd: Daemon
    daemon: Daemon

    @property
    def folder(self) -> Path:
        return self.processes.folder

    def kubeconfig_of(self, user: str) -> Path:
        """For a part of the control plane, by its static token."""
        return self._kubeconfig(user.removeprefix("system:"), self.tokens.of(user))

    def kubeconfig_of_service_account(self, namespace: str, name: str) -> Path:
        return self._kubeconfig(f"{namespace}-{name}", self.admin.service_account_token(namespace, name))

    def client_of_service_account(self, namespace: str, name: str) -> Api:
        """What a pod with this service account may do, and nothing more."""
        return Api(self.url, self.authority.certificate, self.admin.service_account_token(namespace, name))

    def create_namespace(self, name: str) -> str:
        """A namespace that pods can be created in, also where no controller makes its service account."""
        self.admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
        create_service_account(self.admin, name, "default")
        return name

    def _kubeconfig(self, name: str, token: str) -> Path:
        return write_kubeconfig(self.folder / f"{name}.kubeconfig", self.url, self.authority.certificate, token)


def create_service_account(admin: Api, namespace: str, name: str) -> None:
    try:
        admin.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    except Refused as why:
        if why.status != CONFLICT:  # the controller was first
            raise


def start_api_server(processes: Processes) -> ApiServer:
    folder = processes.folder
    authority = Authority(folder)
    serving = authority.loopback_pair("loopback")
    service_accounts, tokens = service_account_keys(folder), Tokens(folder)
    etcd, etcd_url = _start_etcd(processes, authority, serving)
    port = free_port()
    url = f"https://{LOOPBACK}:{port}"
    options = _options(port, etcd_url, authority, serving, service_accounts, tokens)
    daemon = processes.start("kube-apiserver", tool("kube-apiserver"), options)
    admin = Api(url, authority.certificate, tokens.of(ADMIN))
    daemon.wait_until(admin.is_ready)
    return ApiServer(url, authority, serving, service_accounts, tokens, processes, admin, etcd, daemon)


def _start_etcd(processes: Processes, authority: Authority, pair: KeyPair) -> tuple[Daemon, str]:
    data = processes.folder / "etcd"
    shutil.rmtree(data, ignore_errors=True)
    processes.remove_in_the_end(data)
    clients, peers = (f"https://{LOOPBACK}:{free_port()}" for _ in range(2))
    options = [
        "--unsafe-no-fsync",  # nobody needs this data after a power cut
        f"--data-dir={data}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        *_tls("", authority, pair),
        *_tls("peer-", authority, pair),
        "--log-level=warn",
    ]
    return processes.start("etcd", tool("etcd"), options), clients


def _tls(prefix: str, authority: Authority, pair: KeyPair) -> list[str]:
    return [
        f"--{prefix}cert-file={pair.certificate}",
        f"--{prefix}key-file={pair.key}",
        f"--{prefix}trusted-ca-file={authority.certificate}",
        f"--{prefix}client-cert-auth",
    ]


def _options(
    port: int, etcd_url: str, authority: Authority, serving: KeyPair, service_accounts: KeyPair, tokens: Tokens
) -> list[str]:
    return [
        f"--etcd-servers={etcd_url}",
        f"--etcd-cafile={authority.certificate}",
        f"--etcd-certfile={serving.certificate}",
        f"--etcd-keyfile={serving.key}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={port}",
        "--endpoint-reconciler-type=none",  # a loopback address is refused as an endpoint
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--client-ca-file={authority.certificate}",  # published to the other parts, which look for it
        "--anonymous-auth=false",
        f"--token-auth-file={tokens.file}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={service_accounts.certificate}",
        f"--service-account-signing-key-file={service_accounts.key}",
        "--service-cluster-ip-range=10.0.0.0/24",
    ]
