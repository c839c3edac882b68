"""How the API server is reached: real files, real certificates, a real TLS server."""

from __future__ import annotations

import http.server
import json
import ssl
import subprocess
import threading

import pytest
import yaml

from agent.errors import InputError
from envs.live.kubernetes.access import find_access, from_kubeconfig, in_cluster
from envs.live.kubernetes.api import ApiError, ApiServer


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A CA, a certificate of it for 127.0.0.1, and another CA that nobody should trust."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    for name in ("ca", "stranger"):
        subject = ("-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.crt")
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject)
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=api", "-keyout", "api.key", "-out", "api.csr")
    signing = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
    openssl("x509", "-req", "-in", "api.csr", *signing, "-out", "api.crt")
    return folder


@pytest.fixture
def tls_server(certificates):
    """Answers with the token it was sent."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"token": self.headers.get("Authorization")}).encode())

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "api.crt", certificates / "api.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def account(tmp_path, certificates):
    (tmp_path / "ca.crt").write_bytes((certificates / "ca.crt").read_bytes())
    (tmp_path / "token").write_text("first\n")
    return tmp_path


def environment_of(server) -> dict[str, str]:
    return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.server_port)}


def token_seen(api: ApiServer) -> str:
    return str(api.get("/", {}, 5.0, 1000)["token"])


def test_service_account_is_used_in_a_pod_and_its_token_is_read_anew(tls_server, account):
    api = ApiServer(find_access(environment=environment_of(tls_server), account=account))
    assert token_seen(api) == "Bearer first"
    (account / "token").write_text("second")
    assert token_seen(api) == "Bearer second"


def test_server_of_another_authority_is_refused(tls_server, account, certificates):
    (account / "ca.crt").write_bytes((certificates / "stranger.crt").read_bytes())
    with pytest.raises(ApiError, match="certificate verify failed"):
        token_seen(ApiServer(in_cluster(environment_of(tls_server), account)))


def test_token_that_vanished_is_an_error_of_the_request_and_no_crash(tls_server, account):
    api = ApiServer(in_cluster(environment_of(tls_server), account))
    (account / "token").unlink()
    with pytest.raises(ApiError, match="token"):
        token_seen(api)


def test_pod_without_a_service_account_is_one_clear_error(tmp_path):
    with pytest.raises(InputError, match=r"ca\.crt is missing"):
        in_cluster({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path)


def kubeconfig(folder, server, certificates, **user) -> str:
    cluster = {"server": f"https://127.0.0.1:{server.server_port}", "certificate-authority": f"{certificates}/ca.crt"}
    content = {
        "current-context": "one",
        "contexts": [{"name": name, "context": {"cluster": "c", "user": name}} for name in ("one", "two")],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "one", "user": user}, {"name": "two", "user": {"token": "of-two"}}],
    }
    file = folder / "config"
    file.write_text(yaml.safe_dump(content))
    return str(file)


def test_kubeconfig_gives_address_authority_and_token(tls_server, certificates, tmp_path):
    file = kubeconfig(tmp_path, tls_server, certificates, token="of-one")
    assert token_seen(ApiServer(from_kubeconfig(file))) == "Bearer of-one"
    assert token_seen(ApiServer(find_access(file, "two"))) == "Bearer of-two"


def test_kubeconfig_may_ask_a_program_for_the_token(tls_server, certificates, tmp_path):
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "of-a-program"},
    }
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho '{json.dumps(credential)}'\n")
    program.chmod(0o755)
    ask = {"apiVersion": credential["apiVersion"], "command": str(program), "interactiveMode": "Never"}
    file = kubeconfig(tmp_path, tls_server, certificates, exec=ask)
    assert token_seen(ApiServer(from_kubeconfig(file))) == "Bearer of-a-program"


def test_kubeconfig_of_the_environment_is_used_outside_a_pod(tls_server, certificates, tmp_path):
    file = kubeconfig(tmp_path, tls_server, certificates, token="of-one")
    assert find_access(environment={"KUBECONFIG": file}).url == f"https://127.0.0.1:{tls_server.server_port}"


@pytest.mark.parametrize("content", [None, "", "[]", "{", "clusters: 3\ncurrent-context: a", "current-context: gone"])
def test_kubeconfig_that_cannot_be_read_is_one_clear_error(tmp_path, content):
    file = tmp_path / "config"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InputError, match="PILOTFISH_CLUSTER__KUBECONFIG") as error:
        from_kubeconfig(str(file))
    assert "\n" not in str(error.value)


def test_credentials_never_show(tls_server, account):
    access = in_cluster(environment_of(tls_server), account)
    assert "first" not in f"{access!r} {ApiServer(access)!r}"
