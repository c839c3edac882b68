"""Warning events on pods, told to an API server over a socket."""

from __future__ import annotations

import logging

import pytest

from agent.cluster import Pod
from envs.live.kubernetes import events
from envs.live.kubernetes.access import Access
from envs.live.kubernetes.api import ApiServer
from envs.live.kubernetes.events import PodEvents
from tests.envs.live.conftest import eventually

POD = Pod("uid-1", "web-1", "shop")
MESSAGE = "annotation latencyHardConstraint is ignored: 'fast' is not a number"


@pytest.fixture
def pod_events(api):
    told = PodEvents(ApiServer(Access(api.url)))
    told.start()
    yield told
    told.stop()
    assert not told._thread.is_alive()


def test_a_pod_is_told_once_where_its_owner_looks(api, pod_events):
    for _ in range(3):
        pod_events.warn(POD, "UnreadableAnnotation", MESSAGE)
    pod_events.warn(Pod("uid-2", "web-2", "shop"), "UnreadableAnnotation", "x" * 5000)
    eventually(lambda: len(api.posted) == 2)
    (path, first), (_, second) = api.posted
    assert path == "/api/v1/namespaces/shop/events"
    assert first["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "shop",
        "name": "web-1",
        "uid": "uid-1",
    }
    assert (first["type"], first["reason"], first["message"]) == ("Warning", "UnreadableAnnotation", MESSAGE)
    assert len(second["message"]) == 1024


def test_a_question_without_a_pod_is_told_nobody(api, pod_events):
    pod_events.warn(Pod("", "web-1", "shop"), "UnreadableAnnotation", MESSAGE)
    pod_events.warn(POD, "UnreadableAnnotation", MESSAGE)
    eventually(lambda: api.posted)
    assert [body["involvedObject"]["uid"] for _, body in api.posted] == ["uid-1"]


def test_a_refusal_is_said_once_and_the_next_event_is_tried(api, pod_events, caplog):
    caplog.set_level(logging.WARNING)
    api.post_status = 403
    for number in range(3):
        pod_events.warn(POD, "UnreadableAnnotation", f"{MESSAGE} {number}")
    eventually(lambda: len(api.posted) == 3)
    eventually(lambda: "events are lost: 403" in caplog.text)
    assert caplog.text.count("events are lost") == 1


def test_who_warns_never_waits_and_the_oldest_are_forgotten(monkeypatch):
    monkeypatch.setattr(events, "MOST_REMEMBERED", 5)
    idle = PodEvents(ApiServer(Access("http://127.0.0.1:9")))  # nobody takes anything from its queue
    for number in range(300):
        idle.warn(POD, "UnreadableAnnotation", str(number))
    assert idle._waiting.qsize() == events.MOST_WAITING
    assert len(idle._told) == 5
