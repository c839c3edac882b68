import asyncio
import threading

import pytest

from agent.cluster import Pod
from benchmarks.extender.cluster import StandingCluster
from serving.decisions import Decisions
from serving.subscribing import MOST_SUBSCRIBERS, TooManySubscribers
from tests.serving.conftest import NAMES, a_snapshot


def a_decision(decider, uid="u1"):
    return decider.consider(a_snapshot(), Pod(uid=uid, name=f"web-{uid}", cpu_request_millicores=500))


def test_the_newest_decisions_come_first_and_old_ones_leave(decider):
    decisions = Decisions(keep=3)
    for uid in "abcde":
        decisions.note(a_decision(decider, uid))
    assert [noted.uid for noted in decisions.last(10)] == ["e", "d", "c"]
    assert [noted.uid for noted in decisions.last(2)] == ["e", "d"]
    assert decisions.newest_of("a") is None
    assert decisions.newest_of("c") is not None


def test_a_pod_is_found_by_its_uid_newest_answer_first(decider):
    decisions = Decisions()
    for uid in "abab":
        decisions.note(a_decision(decider, uid))
    assert [noted.number for noted in decisions.last(10, "a")] == [3, 1]
    assert decisions.newest_of("a").number == 3


def test_only_the_newest_are_kept_whole_and_the_others_keep_their_summary(decider):
    decisions = Decisions(keep=10, whole_nodes=2 * len(NAMES))
    for uid in "abc":
        decisions.note(a_decision(decider, uid))
    newest, _, oldest = decisions.last(3)
    assert newest.decision is not None
    assert oldest.decision is None
    assert oldest.summary()["best"] == newest.summary()["best"] == "idle"


def test_one_decision_larger_than_the_budget_is_still_kept_whole(decider):
    decisions = Decisions(whole_nodes=1)
    assert decisions.note(a_decision(decider)).decision is not None


def test_the_node_really_bound_is_noted_on_the_newest_answer(decider):
    decisions = Decisions(wall_clock=lambda: 77.0)
    first, second = decisions.note(a_decision(decider)), decisions.note(a_decision(decider))
    decisions.on_bound("u1", "busy")
    assert (first.bound, second.bound, second.summary()["bound_at_s"]) == (None, "busy", 77.0)


def test_a_binding_that_is_told_twice_is_one_event_and_a_strangers_is_none(decider):
    decisions, told = Decisions(), []
    decisions.note(a_decision(decider))
    decisions.listen(lambda event: told.append((event.kind, event.uid)))
    for _ in range(2):
        decisions.on_bound("u1", "busy")
    decisions.on_bound("stranger", "busy")
    assert told == [("bound", "u1")]


def test_a_listener_that_fails_costs_no_answer(decider, caplog):
    decisions, told = Decisions(), []
    decisions.listen(lambda event: 1 / 0)
    decisions.listen(told.append)
    decisions.note(a_decision(decider))
    assert len(told) == 1
    assert "a listener failed" in caplog.text


def test_a_summary_stays_small_however_large_the_cluster(decider):
    decision = decider.consider(
        StandingCluster(5000, decider.clock).snapshot(), Pod(uid="u1", cpu_request_millicores=10**9)
    )
    noted = Decisions().note(decision)
    assert noted.summary()["filtered"] == {"Insufficient cpu": 5000}
    assert len(str(noted.summary())) < 5000


def test_subscribers_hear_of_decisions_of_other_threads_in_order(decider):
    decisions = Decisions()

    async def listening():
        with decisions.subscribe() as events:
            threading.Thread(target=lambda: [decisions.note(a_decision(decider, uid)) for uid in "abc"]).start()
            return [(await asyncio.wait_for(anext(events), 5)).described()["uid"] for _ in range(3)]

    assert asyncio.run(listening()) == ["a", "b", "c"]
    assert decisions._listeners == ()


def test_a_slow_subscriber_loses_the_oldest_and_nobody_waits_for_it(decider):
    decisions = Decisions()

    async def listening():
        with decisions.subscribe(capacity=2) as events:
            for uid in "abcde":
                decisions.note(a_decision(decider, uid))
            await asyncio.sleep(0)
            return [(await anext(events)).uid for _ in range(2)], events.dropped

    assert asyncio.run(listening()) == (["d", "e"], 3)


def test_the_number_of_subscribers_is_limited():
    decisions = Decisions()

    async def crowding():
        for _ in range(MOST_SUBSCRIBERS):
            decisions.subscribe().__enter__()
        decisions.subscribe()

    with pytest.raises(TooManySubscribers):
        asyncio.run(crowding())


def test_an_explanation_or_preview_is_no_decision(decider):
    a_decision(decider)
    assert len(decider.decisions) == 0
    decider.decide(a_snapshot(), Pod(uid="u1"))
    assert len(decider.decisions) == 1


# --- the route

POD = {"requirements": {"uid": "u1", "name": "web-1", "cpu": "500m"}}


def test_decisions_are_listed_with_source_time_and_the_bound_node(client, decider):
    client.post("/v1/score", json=POD)
    decider.decisions.on_bound("u1", "middle")
    (listed,) = client.get("/v1/decisions").json()["decisions"]
    assert (listed["uid"], listed["best"], listed["bound"]) == ("u1", "idle", "middle")
    assert listed["source"] == "expected_utilisation"
    assert listed["top"][0] == {"node": "idle", "score": 10, "value": listed["top"][0]["value"]}
    assert listed["candidates"] == 4
    assert listed["applied"] is True
    assert listed["took_ms"] >= 0
    assert "features" not in listed


def test_decisions_of_one_pod_come_with_its_features(client, decider):
    client.post("/v1/score", json=POD)
    client.post("/v1/score", json={"requirements": {"uid": "u2"}})
    decider.decisions.on_bound("u1", "middle")
    (listed,) = client.get("/v1/decisions?uid=u1").json()["decisions"]
    assert set(listed["features"]) == {"idle", "middle"}
    assert listed["features"]["middle"]["cpu_used_ratio"] == pytest.approx(0.25)


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "many", "1e3", "", "9" * 30, "١"])
def test_a_limit_that_is_no_number_in_range_is_refused(client, limit):
    reply = client.get("/v1/decisions", params={"limit": limit})
    assert reply.status_code == 400
    assert "'limit' must be" in reply.json()["error"]


def test_the_limit_cuts_the_list(client):
    for _ in range(3):
        client.post("/v1/score", json=POD)
    assert [each["number"] for each in client.get("/v1/decisions?limit=2").json()["decisions"]] == [3, 2]
