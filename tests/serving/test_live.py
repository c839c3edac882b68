"""The sidecar over a cluster: the API server is scripted, the process, its sockets and its files are real."""

from __future__ import annotations

import json
import signal
import urllib.error

import pytest
import yaml

from agent.errors import InputError
from envs.live.kubernetes.access import Access
from envs.live.kubernetes.api import ApiServer
from envs.live.ledger import Ledger
from envs.live.metrics_api import MetricsApiSource
from envs.live.prometheus import PrometheusSource
from serving.measuring import Measuring, chosen
from serving.settings import Settings
from tests.envs.live.conftest import eventually
from tests.envs.live.scripted_api import ScriptedApi, api_node, api_pod
from tests.serving.leaving import WITHIN_S, seconds_to_leave
from tests.serving.test_run import ask, free_port, pilotfish, wait_until_ready

POD = {"requirements": {"cpu": "2", "memory": "1Gi"}}
SOON_S = 10.0  # on a busy machine; `pilotfish benchmark live` holds it to one second


@pytest.fixture
def api():
    server = ScriptedApi()
    for name in ("a", "b"):
        server.put("nodes", api_node(name, cpu="4"))
    yield server
    server.stop()


@pytest.fixture
def kubeconfig(tmp_path):
    def write(url: str) -> str:
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": {"server": url}}],
            "users": [{"name": "test", "user": {"token": "secret-of-the-test"}}],
        }
        file = tmp_path / "kubeconfig"
        file.write_text(yaml.safe_dump(content))
        return str(file)

    return write


@pytest.fixture
def serve(kubeconfig, model_folder):
    """Starts the sidecar over an API server; gives its port and its process."""
    started = []

    def start(url: str, **environment: str):
        port = free_port()
        settings = {
            "PILOTFISH_CLUSTER__SOURCE": "kubernetes",
            "PILOTFISH_CLUSTER__KUBECONFIG": kubeconfig(url),
            "PILOTFISH_CLUSTER__METRICS": "none",
            "PILOTFISH_MODEL__FOLDER": str(model_folder),
        }
        process = pilotfish("serve", "--port", str(port), **(settings | environment))
        started.append(process)
        return port, process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def refused(port: int, path: str) -> str:
    """What a 503 says, or nothing."""
    try:
        ask(port, path)
    except urllib.error.HTTPError as reply:
        return json.load(reply)["error"] if reply.code == 503 else ""
    except OSError:
        pass
    return ""


def best(port: int) -> str:
    return ask(port, "/v1/score", POD)["best"]


def test_scores_follow_the_cluster(api, serve):
    port, process = serve(api.url)
    wait_until_ready(process, port)
    assert [node["name"] for node in ask(port, "/v1/state")["nodes"]] == ["a", "b"]
    for full, free in (("a", "b"), ("b", "a")):
        api.put("pods", api_pod("large", node=full, cpu="3"))
        eventually(lambda free=free: best(port) == free, f"{full} is full", SOON_S)
        assert "Insufficient cpu" in str(ask(port, "/v1/score", POD)["filtered"])
    api.put("nodes", api_node("a", cpu="4", unschedulable=True))
    eventually(lambda: best(port) is None, "nothing is left", SOON_S)


def test_binding_that_the_watch_shows_is_no_longer_assumed_twice(api, serve):
    port, process = serve(api.url)
    wait_until_ready(process, port)
    pod = api_pod("p1", cpu="1")
    node = ask(port, "/v1/score", {"pod": pod})["best"]
    assert ask(port, "/v1/decisions")["decisions"][0]["bound"] is None
    api.put("pods", api_pod("p1", cpu="1", node=node))
    eventually(lambda: ask(port, "/v1/decisions")["decisions"][0]["bound"] == node, "the binding is noted", SOON_S)
    requested = {each["name"]: each["cpu_requested_millicores"] for each in ask(port, "/v1/state")["nodes"]}
    assert requested[node] == 1000.0
    # a pod of 2 cores fits beside 1 of 4, a pod of 2.5 too, were 1 counted twice it would not
    fits = ask(port, "/v1/score", {"requirements": {"cpu": "2500m"}})
    assert node in [each["node"] for each in fits["scores"]]


def test_unreachable_api_server_is_said_and_waited_for(serve):
    away = ScriptedApi()
    away.stop()
    port, process = serve(away.url)
    eventually(lambda: "refused" in refused(port, "/readyz"), "readiness says why", 30.0)
    assert "refused" in refused(port, "/v1/state")
    assert ask(port, "/healthz") == {"status": "ok"}
    asked = {"Pod": api_pod("p1"), "NodeNames": ["a", "b"]}
    assert len({each["Score"] for each in ask(port, "/extender/prioritize", asked)}) == 1
    assert ask(port, "/extender/filter", asked)["NodeNames"] == ["a", "b"]
    assert process.poll() is None


def test_lost_api_server_leaves_the_scores_and_takes_the_readiness(api, serve):
    port, process = serve(api.url, PILOTFISH_SERVER__READY_WITHIN_S="1")
    wait_until_ready(process, port)
    api.stop()
    eventually(lambda: "old" in refused(port, "/readyz"), "not ready any more", 20.0)
    assert ask(port, "/v1/score", POD)["scores"]
    assert ask(port, "/v1/state")["problems"]


def test_token_reaches_the_server_and_no_log(api, serve):
    port, process = serve(api.url, PILOTFISH_LOGGING__LEVEL="debug")
    wait_until_ready(process, port)
    assert "Bearer secret-of-the-test" in {headers.get("Authorization") for _, _, headers in api.requests}
    process.terminate()
    said = "".join(process.communicate(timeout=10))
    assert "secret-of-the-test" not in said


@pytest.mark.parametrize(
    ("wanted", "address", "kinds"),
    [
        ("auto", "", [MetricsApiSource]),
        ("auto", "http://127.0.0.1:9", [PrometheusSource]),
        ("metrics-api", "http://127.0.0.1:9", [MetricsApiSource]),
        ("none", "http://127.0.0.1:9", []),
    ],
)
def test_metrics_come_from_whom_the_settings_name(wanted, address, kinds):
    settings = Settings(cluster={"metrics": wanted}, prometheus={"address": address})
    sources = Measuring(settings, ApiServer(Access("http://127.0.0.1:9")), Ledger()).sources
    assert [type(source) for source in sources.values()] == kinds


def test_prometheus_without_an_address_is_one_clear_error():
    with pytest.raises(InputError, match="PILOTFISH_PROMETHEUS__ADDRESS"):
        chosen(Settings(cluster={"metrics": "prometheus"}))


def test_nothing_to_reach_a_cluster_by_is_one_clear_line(tmp_path):
    given = {"PILOTFISH_CLUSTER__SOURCE": "kubernetes", "PILOTFISH_CLUSTER__KUBECONFIG": str(tmp_path / "none")}
    process = pilotfish("serve", "--port", str(free_port()), **given)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "Traceback" not in errors
    assert "PILOTFISH_CLUSTER__KUBECONFIG" in errors.splitlines()[-1]


def test_terminated_sidecar_leaves_within_two_seconds_with_open_watches(api, serve):
    port, process = serve(api.url)
    wait_until_ready(process, port)
    eventually(lambda: api.count("watch pods"))
    process.terminate()
    assert seconds_to_leave(process.pid) < WITHIN_S
    assert process.wait(timeout=10) in (0, -signal.SIGTERM)
