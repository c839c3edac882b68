from tests.serving.conftest import a_snapshot


def test_alive_even_without_a_cluster(client, source):
    source.current = None
    assert client.get("/healthz").status_code == 200


def test_ready_once_there_is_a_state(client, source):
    source.current = None
    reply = client.get("/readyz")
    assert reply.status_code == 503
    assert "not known yet" in reply.json()["error"]
    source.current = a_snapshot()
    assert client.get("/readyz").json() == {"status": "ready", "nodes": 5, "age_s": 0.0}


def test_not_ready_when_the_state_has_grown_old(client, clock):
    clock.now_s += 60.0
    assert client.get("/readyz").status_code == 200
    clock.now_s += 0.5
    reply = client.get("/readyz")
    assert reply.status_code == 503
    assert "60.5 s old" in reply.json()["error"]


def test_the_source_runs_as_long_as_the_application(client, source):
    assert source.running
    client.__exit__(None, None, None)
    assert not source.running


def test_an_unknown_route_is_a_clear_error(client):
    reply = client.get("/v2/score")
    assert reply.status_code == 404
    assert "GET /v2/score" in reply.json()["error"]


def test_the_state_shows_nodes_ages_and_breakers(client, clock):
    clock.now_s += 1.0
    state = client.get("/v1/state").json()
    assert state["age_s"] == 1.0
    assert [node["name"] for node in state["nodes"]] == ["idle", "busy", "middle", "tainted", "small"]
    assert state["nodes"][1]["rx_mbps"] == 900.0
    assert state["nodes"][1]["ages_s"]["network"] == 6.0
    assert state["ladder"][0] == {"step": "expected_utilisation", "breaker": "closed"}
