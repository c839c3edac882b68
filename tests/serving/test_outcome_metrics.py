import math

import pytest

from agent.cluster import Pod
from agent.features import SCHEMA_VERSION
from serving.outcome_metrics import reward_of
from serving.settings import ModelSettings, Settings
from tests.serving.conftest import a_snapshot, without_metrics
from tests.serving.test_metrics import samples

POD = {"requirements": {"uid": "u1", "cpu": "500m"}}


def test_latency_is_counted_by_route_and_by_the_step_that_decided(client, source):
    client.post("/v1/score", json=POD)
    source.current = without_metrics(source.current, "cpu")
    client.post("/v1/score", json=POD)
    client.get("/v1/state")
    client.post("/v1/score", content="{")
    counted = samples(client)

    def count(route, source):
        return counted["pilotfish_request_seconds_count", (("route", route), ("source", source))]

    assert count("/v1/score", "expected_utilisation") == 1
    assert count("/v1/score", "least_allocated") == 1
    assert count("/v1/score", "none") == 1, "a request that was refused has no source, and none of the one before"
    assert count("/v1/state", "none") == 1


def test_the_step_that_answered_last_and_every_breakers_state_show(client, decider, source):
    client.post("/v1/score", json=POD)
    shown = samples(client)
    assert shown["pilotfish_ladder_step", (("step", "expected_utilisation"),)] == 1
    assert shown["pilotfish_ladder_step", (("step", "least_allocated"),)] == 0
    for _ in range(3):
        decider.ladder.steps[0].breaker.failed()
    key = (("state", "open"), ("step", "expected_utilisation"))
    assert samples(client)["pilotfish_breaker_state", key] == 1


class TestWithAModel:
    @pytest.fixture
    def settings(self, model_folder):
        return Settings(model=ModelSettings(folder=str(model_folder), gpu_folder="none"))

    def test_the_model_in_use_is_named(self, client, decider):
        (label,) = decider.policy.labels
        key = (("kind", "default"), ("model", label), ("schema", str(SCHEMA_VERSION)))
        assert samples(client)["pilotfish_model_info", key] == 1


def test_success_and_first_choice_are_those_of_the_last_thirty(client, decider):
    for number in range(40):
        size = "4000" if number >= 34 else "10m"  # the last six fit nowhere
        client.post("/v1/score", json={"requirements": {"uid": f"u{number}", "cpu": size}})
    for number in range(10, 14):
        decider.decisions.on_bound(f"u{number}", decider.decisions.newest_of(f"u{number}").summary()["best"])
    decider.decisions.on_bound("u14", "small")
    shown = samples(client)
    assert shown["pilotfish_recent_success_ratio", ()] == pytest.approx(24 / 30)
    assert shown["pilotfish_recent_first_choice_ratio", ()] == pytest.approx(4 / 5)


def test_before_the_first_decision_nothing_is_claimed(client):
    shown = samples(client)
    assert math.isnan(shown["pilotfish_recent_reward", ()])
    assert math.isnan(shown["pilotfish_recent_success_ratio", ()])


def test_the_reward_is_the_room_left_on_the_node_that_the_pod_got(decider):
    decision = decider.consider(a_snapshot(), Pod(uid="u1", cpu_request_millicores=500))
    assert decision.best == "idle"
    assert 0.9 < reward_of(decision, None) < 1.0
    assert reward_of(decision, "busy") < 0.3
    assert reward_of(decision, "nowhere") == reward_of(decision, "idle")


def test_pods_and_latency_of_each_node_show_in_small_clusters_only(client, monkeypatch):
    assert samples(client)["pilotfish_node_user_latency_ms", (("node", "busy"),)] == 20
    assert samples(client)["pilotfish_node_pods", (("node", "busy"),)] == 0
    monkeypatch.setattr("serving.outcome_metrics.MOST_NODES", 4)
    assert ("pilotfish_node_pods", (("node", "busy"),)) not in samples(client)
