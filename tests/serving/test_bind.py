"""Binding: one call of ours to ``pods/binding``, over a socket, against a server that speaks it."""

import json
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from fastapi.testclient import TestClient

from envs.live.binding import Binding, BindingRefused
from serving.app import create_app
from serving.settings import ExtenderSettings, ModelSettings, Settings
from tests.serving.test_extender import call

ARGS = {"PodName": "web-1", "PodNamespace": "shop", "PodUID": "u1", "Node": "idle"}


class ApiServer(ThreadingHTTPServer):
    """Binds each pod once, as the real one does: the second time is 409."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.bound = {}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        binding = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        taken = self.path in self.server.bound
        self.server.bound.setdefault(self.path, binding)
        self.send_response(409 if taken else 201)
        self.end_headers()
        self.wfile.write(json.dumps({"kind": "Status", "message": "pod web-1 is already assigned"}).encode())

    def log_message(self, *_):
        pass


class OverHttp:
    """The plainest ``Binder``: the call alone, without certificates and tokens."""

    def __init__(self, port):
        self.address = f"http://127.0.0.1:{port}"

    def bind(self, binding: Binding) -> None:
        request = urllib.request.Request(
            self.address + binding.path, json.dumps(binding.content).encode(), {"Content-Type": "application/json"}
        )
        try:
            urllib.request.urlopen(request, timeout=5).close()
        except urllib.error.HTTPError as why:
            raise BindingRefused(json.load(why)["message"]) from why


@pytest.fixture
def api():
    with ApiServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def client(source, decider, metrics, api):
    settings = Settings(model=ModelSettings(folder="none"), extender=ExtenderSettings(bind=True))
    binder = OverHttp(api.server_address[1])
    with TestClient(create_app(settings, source, decider, metrics, binder)) as client:
        yield client


def test_the_pod_is_bound_through_its_subresource(client, api):
    assert call(client, "bind", ARGS) == {"Error": ""}
    assert api.bound == {
        "/api/v1/namespaces/shop/pods/web-1/binding": {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": "shop", "name": "web-1", "uid": "u1"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "idle"},
        }
    }


def test_a_refusal_reaches_kube_scheduler_as_the_error_of_the_reply(client):
    call(client, "bind", ARGS)
    assert call(client, "bind", ARGS) == {"Error": "pod web-1 is already assigned"}


def test_names_cannot_leave_their_place_in_the_path(client, api):
    call(client, "bind", ARGS | {"PodName": "../../nodes/idle", "PodNamespace": "a/b"})
    assert list(api.bound) == ["/api/v1/namespaces/a%2Fb/pods/..%2F..%2Fnodes%2Fidle/binding"]


@pytest.mark.parametrize("missing", list(ARGS))
def test_a_binding_that_lacks_something_is_400(client, missing):
    body = {key: value for key, value in ARGS.items() if key != missing}
    reply = client.post("/extender/bind", json=body)
    assert reply.status_code == 400
    assert missing in reply.json()["error"]


def test_without_a_connection_to_an_api_server_the_reply_says_so(source, decider, metrics):
    settings = Settings(model=ModelSettings(folder="none"), extender=ExtenderSettings(bind=True))
    with TestClient(create_app(settings, source, decider, metrics)) as client:
        assert "no connection" in call(client, "bind", ARGS)["Error"]
