from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient

from agent.cluster import Pod
from agent.errors import InputError
from serving.app import create_app
from serving.configuration import load_settings
from serving.rollout import Rollout
from serving.settings import ModelSettings, RolloutSettings, Settings
from tests.serving.conftest import NAMES
from tests.serving.test_extender import args, call, scores, under_maintenance
from tests.serving.test_metrics import samples

PODS = [Pod(uid=f"6f1b2c{number:04x}-aaaa") for number in range(4000)]


def canary(**settings):
    return Rollout(RolloutSettings(mode="canary", **settings))


@pytest.fixture
def sidecar(source, decider, metrics):
    def start(**rollout):
        settings = Settings(model=ModelSettings(folder="none"), rollout=RolloutSettings(**rollout))
        return TestClient(create_app(settings, source, decider, metrics))

    return start


def test_pods_are_decided_for_real_unless_something_else_is_set():
    verdict = Rollout(RolloutSettings()).verdict(PODS[0])
    assert (verdict.mode, verdict.applied) == ("active", True)


def test_the_canary_is_the_share_that_was_set_and_a_larger_one_keeps_its_pods():
    small = {pod.uid for pod in PODS if canary(canary_share=0.1).verdict(pod).applied}
    large = {pod.uid for pod in PODS if canary(canary_share=0.5).verdict(pod).applied}
    assert 0.08 < len(small) / len(PODS) < 0.12
    assert 0.47 < len(large) / len(PODS) < 0.53
    assert small < large


@pytest.mark.parametrize(("share", "applied"), [(0.0, 0), (1.0, len(PODS))])
def test_none_and_all(share, applied):
    assert sum(canary(canary_share=share).verdict(pod).applied for pod in PODS) == applied


def test_a_selector_decides_instead_of_the_share():
    rollout = canary(canary_share=1.0, canary_selector="team=web")
    assert rollout.verdict(Pod(uid="a", labels={"team": "web"})).applied
    assert not rollout.verdict(Pod(uid="a", labels={"team": "db"})).applied


def test_a_selector_that_cannot_be_read_is_refused_at_the_start(monkeypatch):
    monkeypatch.setenv("PILOTFISH_ROLLOUT__CANARY_SELECTOR", "team in web")
    with pytest.raises(InputError, match=r"PILOTFISH_ROLLOUT__CANARY_SELECTOR.*is no term"):
        load_settings()


def test_off_answers_neutrally_and_computes_nothing(sidecar, source):
    source.current = under_maintenance(source.current, "busy")
    with sidecar(mode="off") as client:
        assert scores(client, args()) == dict.fromkeys(NAMES, 0)
        assert call(client, "filter", args())["NodeNames"] == list(NAMES)
        assert not [key for key in samples(client) if key[0] == "pilotfish_decisions_total"]


def test_shadow_answers_neutrally_but_decides(sidecar, source, decider, monkeypatch):
    source.current = under_maintenance(source.current, "busy")
    decisions = []
    settle = decider.settle
    monkeypatch.setattr(decider, "settle", lambda decision: decisions.append(decision) or settle(decision))
    with sidecar(mode="shadow") as client:
        assert scores(client, args()) == dict.fromkeys(NAMES, 0)
        assert call(client, "filter", args())["NodeNames"] == list(NAMES)
    (decision,) = decisions
    assert (decision.best, decision.mode, decision.applied) == ("idle", "shadow", False)
    assert len(decider.assumed) == 0, "nobody follows our choice, so it must not count"


def test_the_canary_gets_our_answer_and_the_others_a_neutral_one(sidecar):
    with sidecar(mode="canary", canary_selector="team=web") as client:
        assert scores(client, args(labels={"team": "web"}))["idle"] == 10
        assert set(scores(client, args(uid="u2", labels={"team": "db"})).values()) == {0}
        assert samples(client)["pilotfish_decisions_total", (("source", "expected_utilisation"),)] == 2


def test_the_native_api_always_says_what_we_think(sidecar):
    with sidecar(mode="off") as client:
        assert client.post("/v1/score", json={"requirements": {"cpu": "1"}}).json()["best"] == "idle"


def test_another_mode_needs_no_restart(sidecar):
    with sidecar(mode="off") as client:
        live = client.app.state.sidecar.live
        live.reload(lambda: SimpleNamespace(settings=live.current.model_copy(update={"rollout": RolloutSettings()})))
        assert scores(client, args())["idle"] == 10
