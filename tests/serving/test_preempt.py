"""Preemption: kube-scheduler proposes victims, nodes with a protected one are taken out (S4.8)."""

from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from serving.app import create_app
from serving.settings import ExtenderSettings, ModelSettings, Settings
from tests.serving.test_extender import a_pod, call


@pytest.fixture
def client(source, decider, metrics):
    settings = Settings(model=ModelSettings(folder="none"), extender=ExtenderSettings(preempt=True))
    with TestClient(create_app(settings, source, decider, metrics)) as client:
        yield client


def victim(uid, protected=None):
    return a_pod(uid=uid, annotations=protected and {"pilotfish.io/protected": protected})


def whole(**pod):
    victims = {
        "idle": {"Pods": [victim("a"), victim("b")], "NumPDBViolations": 1},
        "busy": {"Pods": [victim("c"), victim("d", protected="true")], "NumPDBViolations": 0},
        "small": {"Pods": [victim("e", protected="false")], "NumPDBViolations": 0},
    }
    return {"Pod": a_pod(**pod), "NodeNameToVictims": victims, "NodeNameToMetaVictims": None}


def by_uid(**pod):
    victims = {
        "idle": {"Pods": [{"UID": "a"}, {"UID": "b"}], "NumPDBViolations": 2},
        "busy": {"Pods": [{"UID": "c"}, {"UID": "d"}], "NumPDBViolations": 0},
        "middle": {"Pods": None, "NumPDBViolations": 0},
    }
    return {"Pod": a_pod(**pod), "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}


def test_a_node_with_a_protected_victim_is_taken_out(client):
    assert call(client, "preempt", whole()) == {
        "NodeNameToMetaVictims": {
            "idle": {"Pods": [{"UID": "a"}, {"UID": "b"}], "NumPDBViolations": 1},
            "small": {"Pods": [{"UID": "e"}], "NumPDBViolations": 0},
        }
    }


def test_victims_by_uid_are_looked_up_in_what_the_watch_shows(client, source):
    source.current = replace(source.current, protected_uids=frozenset({"d"}))
    left = call(client, "preempt", by_uid())["NodeNameToMetaVictims"]
    assert set(left) == {"idle", "middle"}
    assert left["idle"] == by_uid()["NodeNameToMetaVictims"]["idle"]


def test_pods_of_other_schedulers_preempt_as_they_like(client):
    left = call(client, "preempt", whole(scheduler="somebody-else"))["NodeNameToMetaVictims"]
    assert set(left) == {"idle", "busy", "small"}


def test_without_victims_there_is_nothing_to_trim(client):
    body = {"Pod": a_pod(), "NodeNameToVictims": {"idle": None}, "NodeNameToMetaVictims": None}
    assert call(client, "preempt", body) == {"NodeNameToMetaVictims": {}}


@pytest.mark.parametrize("body", ['{"Pod": {}, "NodeNameToVictims": []}', '{"NodeNameToVictims": {}}'])
def test_malformed_victims_are_400(client, body):
    assert client.post("/extender/preempt", content=body).status_code == 400
