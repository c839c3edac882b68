import asyncio
import threading

import pytest
from fastapi import HTTPException

from agent.cluster import Pod
from benchmarks.extender.cluster import StandingCluster
from serving.explaining import why
from serving.slow_work import MOST_WAITING, SlowWork
from serving.wire.explain import MOST_FILTERED, from_why
from tests.serving.conftest import without_metrics

POD = {"uid": "u1", "name": "web-1", "cpu": "500m", "network_mbps": 50}


def explained(client, **body):
    reply = client.post("/v1/explain", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_the_best_node_is_explained_by_its_features(client):
    told = explained(client, requirements=POD)
    assert told["node"] == told["best"] == "idle"
    assert told["sentence"].startswith("idle scores")
    total = sum(part["change"] for part in told["contributions"])
    assert told["value"] == pytest.approx(told["value_of_average"] + total + told["remainder"])
    assert told["contributions"][0]["feature"] == "network use"
    assert told["contributions"][0]["change"] > 0
    assert [each["node"] for each in told["next_best"]] == ["middle", "small", "busy"]
    assert list(told["filtered"]) == ["tainted"]


def test_another_node_is_explained_by_name(client):
    told = explained(client, requirements=POD, node="busy")
    assert (told["node"], told["best"]) == ("busy", "idle")
    assert told["contributions"][0]["change"] < 0
    assert "idle" in [each["node"] for each in told["next_best"]]


def test_a_node_that_was_filtered_is_explained_by_the_reasons(client):
    told = explained(client, requirements=POD, node="tainted")
    assert told["contributions"] == []
    assert "tainted was no candidate" in told["sentence"]
    assert "taint" in told["sentence"]


def test_a_node_that_was_not_asked_for_is_no_candidate(client):
    told = explained(client, requirements=POD, nodes=["idle", "busy"], node="middle")
    assert "not among the nodes asked for" in told["sentence"]


def test_a_past_decision_is_explained_as_it_was(client, source, decider):
    client.post("/v1/score", json={"requirements": POD})
    decider.decisions.on_bound("u1", "middle")
    source.current = without_metrics(source.current, "cpu", "memory", "network")  # known worse by now
    told = explained(client, uid="u1")
    assert (told["node"], told["bound"], told["source"]) == ("idle", "middle", "expected_utilisation")
    assert told["contributions"]


def test_the_policy_is_explained_too(client, change_to_policy):
    told = explained(client, requirements=POD)
    assert told["source"] == "policy"
    assert told["model"].startswith("default@")
    assert told["contributions"]


@pytest.fixture
def change_to_policy(client, model_folder):
    sidecar = client.app.state.sidecar
    model = sidecar.settings.model.model_copy(update={"folder": str(model_folder), "gpu_folder": "none"})
    sidecar.models.apply(sidecar.settings.model_copy(update={"model": model}))


def test_when_no_node_can_take_the_pod_that_is_the_answer(client):
    told = explained(client, requirements={"cpu": "4000"})
    assert told["node"] is None
    assert told["sentence"] == "No node can take the pod."
    assert len(told["filtered"]) == 5


def test_equal_nodes_are_said_to_be_equal(client, decider):
    decider.ladder = decider.ladder.with_steps([])
    told = explained(client, requirements=POD)
    assert told["value"] is None
    assert "all candidates are equal, because neutral answered" in told["sentence"]


def test_an_explanation_changes_and_counts_nothing(client, decider):
    explained(client, requirements=POD)
    assert (len(decider.assumed), len(decider.decisions)) == (0, 0)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "either 'pod'"),
        ({"uid": "u1", "requirements": {}}, "either 'uid'"),
        ({"requirements": {}, "node": "nowhere"}, "unknown node 'nowhere'"),
        ({"requirements": {}, "node": 5}, "'node' must be a string"),
        ({"requirements": {}, "assume": True}, "unknown field 'assume'"),
        ({"requirements": {}, "nodes": ["nowhere"]}, "unknown node 'nowhere'"),
    ],
)
def test_a_wrong_question_is_refused_by_name(client, body, named):
    reply = client.post("/v1/explain", json=body)
    assert reply.status_code == 400
    assert named in reply.json()["error"]


def test_a_pod_that_nobody_decided_about_is_404(client):
    reply = client.post("/v1/explain", json={"uid": "stranger"})
    assert reply.status_code == 404
    assert "no decision about pod 'stranger' is remembered" in reply.json()["error"]


def test_a_decision_that_is_no_longer_whole_is_404_and_says_what_to_do(client, decider):
    client.post("/v1/score", json={"requirements": POD})
    decider.decisions.newest_of("u1").let_go()
    reply = client.post("/v1/explain", json={"uid": "u1"})
    assert reply.status_code == 404
    assert "ask with the pod itself" in reply.json()["error"]


def test_the_list_of_filtered_nodes_is_bounded(decider):
    decision = decider.consider(
        StandingCluster(5000, decider.clock).snapshot(), Pod(uid="u1", cpu_request_millicores=10**9)
    )
    reply = from_why(decision, why(decision, decider.ladder))
    assert len(reply["filtered"]) == MOST_FILTERED
    assert reply["filtered_counts"] == {"Insufficient cpu": 5000}


def test_slow_work_waits_in_line_and_the_line_is_short():
    work, go = SlowWork(), threading.Event()

    async def crowd():
        waiting = [asyncio.create_task(work.do(lambda: go.wait(5))) for _ in range(MOST_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(HTTPException) as refused:
            await work.do(lambda: None)
        go.set()
        return refused.value.status_code, await asyncio.gather(*waiting), await work.do(lambda: "again")

    code, done, again = asyncio.run(crowd())
    assert (code, all(done), again) == (503, True, "again")
    work.stop()
