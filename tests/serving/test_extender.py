"""kube-scheduler's calls, in the bytes that it sends and reads."""

import json
import re

import numpy as np
import pytest
from fastapi.testclient import TestClient

from agent.cluster import Node
from agent.nodetable import MAINTENANCE_LABEL, NodeTable
from envs.live.snapshot import Snapshot
from serving.app import create_app
from serving.settings import ExtenderSettings, ModelSettings, Settings
from tests.serving.conftest import NAMES, a_snapshot
from tests.serving.test_metrics import samples

OURS = "default-scheduler"


def a_pod(uid="u1", cpu="500m", scheduler=OURS, **metadata):
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}]}
    return {"metadata": {"uid": uid, "name": "web-1", **metadata}, "spec": spec | {"schedulerName": scheduler}}


def args(names=NAMES, **pod):
    return {"Pod": a_pod(**pod), "Nodes": None, "NodeNames": list(names)}


def whole(names=NAMES, **pod):
    items = [{"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4"}}} for name in names]
    return {"Pod": a_pod(**pod), "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}


def call(client, verb, body):
    reply = client.post(f"/extender/{verb}", json=body)
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "application/json"
    return reply.json()


def scores(client, body):
    return {entry["Host"]: entry["Score"] for entry in call(client, "prioritize", body)}


def under_maintenance(snapshot: Snapshot, name: str) -> Snapshot:
    nodes = [
        Node(
            each.name,
            each.cpu_allocatable_millicores,
            each.memory_allocatable_bytes,
            labels={MAINTENANCE_LABEL: "true"},
        )
        if each.name == name
        else each
        for each in snapshot.nodes
    ]
    return Snapshot(NodeTable(nodes), snapshot.state, snapshot.taken_at_s)


# --- prioritize


def test_every_asked_node_gets_one_integer_in_the_order_asked(client):
    asked = ["small", "idle", "busy"]
    reply = client.post("/extender/prioritize", json=args(asked))
    assert re.fullmatch(r'\[(\{"Host":"\w+","Score":\d+\},?)+\]', reply.text), "7.0 would drop every score"
    assert [entry["Host"] for entry in reply.json()] == asked


def test_the_best_is_alone_at_10_and_the_order_is_the_one_of_the_native_api(client):
    found = scores(client, args())
    native = client.post("/v1/score", json={"pod": a_pod(), "assume": False}).json()["scores"]
    assert {name: found[name] for name in found if name != "tainted"} == {e["node"]: e["score"] for e in native}
    assert sorted(found.values())[-2:][0] < 10 == found["idle"]


def test_a_node_that_we_hold_for_full_is_last_but_answered(client):
    assert scores(client, args())["tainted"] == 0


def test_unknown_nodes_stand_in_the_middle_and_are_counted(client):
    found = scores(client, args([*NAMES, "new-1", "new-2"]))
    assert found["busy"] < found["new-1"] == found["new-2"] < found["idle"]
    assert samples(client)["pilotfish_extender_unknown_nodes_total", ()] == 2


def test_nothing_but_unknown_nodes_are_all_equal(client):
    assert set(scores(client, args(["x", "y"])).values()) == {0}


@pytest.mark.parametrize("names", [[], None])
def test_zero_nodes_are_an_empty_list(client, names):
    body = args() | {"NodeNames": names}
    assert call(client, "prioritize", body) == []
    assert call(client, "filter", body)["NodeNames"] == []


def test_the_answer_counts_as_a_placement_once_however_often_it_is_asked(client, decider):
    for _ in range(3):
        scores(client, args(cpu="1"))
    assert len(decider.assumed) == 1
    assert decider.assumed.node_of("u1") == "idle"


def test_before_there_is_a_state_all_nodes_pass_and_are_equal(client, source):
    source.current = None
    assert scores(client, args()) == dict.fromkeys(NAMES, 0)
    assert call(client, "filter", args())["NodeNames"] == list(NAMES)


# --- pods of other schedulers


def test_pods_of_other_schedulers_are_not_touched(client, source, decider):
    source.current = under_maintenance(source.current, "busy")
    others = args(scheduler="somebody-else")
    assert set(scores(client, others).values()) == {0}
    assert call(client, "filter", others)["NodeNames"] == list(NAMES)
    assert len(decider.assumed) == 0


def test_a_pod_without_a_scheduler_name_belongs_to_the_default_one(client):
    assert scores(client, args(scheduler=None))["idle"] == 10


def test_several_schedulers_may_be_named(source, decider, metrics):
    named = Settings(model=ModelSettings(folder="none"), extender=ExtenderSettings(scheduler_names="a, b"))
    with TestClient(create_app(named, source, decider, metrics)) as client:
        assert scores(client, args(scheduler="b"))["idle"] == 10
        assert scores(client, args(scheduler=OURS))["idle"] == 0


# --- filter


def test_filter_answers_in_the_form_that_kube_scheduler_reads(client):
    reply = call(client, "filter", args())
    assert reply == {
        "Nodes": None,
        "NodeNames": list(NAMES),
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def test_filter_does_not_repeat_what_kube_scheduler_knows_better(client):
    """The taint and the full node: in-tree filters have passed them, from newer knowledge than our watch has."""
    assert call(client, "filter", args(cpu="7"))["NodeNames"] == list(NAMES)


def test_filter_rejects_by_our_own_rules_with_the_reason(client, source):
    source.current = under_maintenance(source.current, "busy")
    reply = call(client, "filter", args(annotations={"latencyHardConstraint": "25"}))
    assert reply["NodeNames"] == ["idle", "tainted", "small"]
    assert set(reply["FailedAndUnresolvableNodes"]) == {"busy", "middle"}
    assert "maintenance" in reply["FailedAndUnresolvableNodes"]["busy"]
    assert "latencyHardConstraint: 30 ms, at most 25 ms" in reply["FailedAndUnresolvableNodes"]["middle"]
    assert reply["FailedNodes"] == {}


def test_filter_names_only_nodes_that_were_asked_for(client, source):
    source.current = under_maintenance(source.current, "busy")
    reply = call(client, "filter", args(["idle", "never-heard-of"]))
    assert reply["NodeNames"] == ["idle", "never-heard-of"]
    assert reply["FailedAndUnresolvableNodes"] == {}


# --- whole nodes


def test_whole_nodes_come_back_as_they_came(client, source):
    source.current = under_maintenance(source.current, "busy")
    body = whole([*NAMES, "new"])
    reply = call(client, "filter", body)
    assert reply["NodeNames"] is None
    assert reply["Nodes"]["items"] == [each for each in body["Nodes"]["items"] if each["metadata"]["name"] != "busy"]
    assert set(reply["FailedAndUnresolvableNodes"]) == {"busy"}


def test_whole_nodes_are_scored_like_names_and_counted(client):
    assert scores(client, whole()) == scores(client, args())
    assert samples(client)["pilotfish_extender_full_nodes_total", ()] == 1


def test_an_empty_list_of_whole_nodes_is_answered(client):
    body = whole() | {"Nodes": {"items": None}}
    assert call(client, "prioritize", body) == []
    assert call(client, "filter", body)["Nodes"] == {"items": []}


# --- odd and bad requests


def test_a_name_that_is_asked_twice_is_answered_twice(client):
    found = call(client, "prioritize", args(["idle", "idle", "busy"]))
    assert [entry["Host"] for entry in found] == ["idle", "idle", "busy"]
    assert found[0] == found[1]


def test_ten_thousand_nodes_are_answered_and_more_are_refused(client):
    names = [f"node-{number}" for number in range(9_995)] + list(NAMES)
    assert len(call(client, "prioritize", args(names))) == 10_000
    assert call(client, "filter", args(names))["NodeNames"] == names
    reply = client.post("/extender/prioritize", json=args([*names, "one-more"]))
    assert reply.status_code == 400
    assert "10001 nodes, at most 10000" in reply.json()["error"]


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("", "truncated"),
        ("{", "truncated"),
        ("[]", "Expected `object`"),
        ("{}", "missing required field `Pod`"),
        ('{"Pod": null}', "Expected `object`, got `null` - at `$.Pod`"),
        ('{"Pod": {}, "NodeNames": "idle"}', "at `$.NodeNames`"),
        ('{"Pod": {}, "NodeNames": [1]}', "Expected `str`, got `int` - at `$.NodeNames[0]`"),
        ('{"Pod": {}, "Nodes": {"items": [{}]}}', "missing required field `metadata`"),
        ('{"Pod": {"spec": 5}, "NodeNames": ["idle"]}', "'spec' must be an object"),
        ('{"Pod": {"metadata": {"uid": 5}}, "NodeNames": ["idle"]}', "'uid' must be a string"),
        (b'{"Pod": {}, "NodeNames": ["\xff"]}', "utf-8"),
        ('{"Pod": {"spec": ' + "[" * 5000 + "]" * 5000 + "}}", "recursion"),
    ],
)
def test_malformed_bodies_are_400_with_one_line(client, verb, body, said):
    reply = client.post(f"/extender/{verb}", content=body)
    assert reply.status_code == 400
    assert list(reply.json()) == ["error"]
    assert said.lower() in reply.json()["error"].lower()
    assert "\n" not in reply.json()["error"]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_long_is_413(source, decider, metrics, chunked):
    small = Settings(model=ModelSettings(folder="none"), extender=ExtenderSettings(max_body_bytes=2048))
    body = json.dumps(args(["x" * 100] * 30)).encode()
    with TestClient(create_app(small, source, decider, metrics)) as client:
        reply = client.post("/extender/filter", content=iter([body[:1500], body[1500:]]) if chunked else body)
    assert reply.status_code == 413
    assert "2048 bytes" in reply.json()["error"]


def test_fields_that_we_do_not_know_are_ignored(client):
    assert call(client, "filter", args() | {"Later": {"than": "1.36"}})["NodeNames"] == list(NAMES)


def test_a_defect_of_ours_is_answered_neutrally_and_counted(client, decider, monkeypatch):
    monkeypatch.setattr(decider, "consider", lambda *_, **__: 1 / 0)
    assert scores(client, args()) == dict.fromkeys(NAMES, 0)
    assert samples(client)["pilotfish_extender_defects_total", ()] == 1


def test_calls_are_counted_by_their_route(client):
    call(client, "filter", args())
    counted = samples(client)
    assert counted["pilotfish_requests_total", (("code", "200"), ("route", "/extender/filter"))] == 1


@pytest.mark.parametrize("verb", ["bind", "preempt"])
def test_what_is_not_switched_on_says_how(client, verb):
    reply = client.post(f"/extender/{verb}", json={})
    assert reply.status_code == 404
    assert f"PILOTFISH_EXTENDER__{verb.upper()}=true" in reply.json()["error"]


def test_only_post_is_answered(client):
    assert client.get("/extender/filter").status_code == 405


def test_all_values_missing_is_no_reason_to_fail(client, source):
    state = source.current.state
    for column in (state.cpu_used_millicores, state.rx_mbps, state.cpu_age_s, state.network_age_s):
        column[:] = np.nan
    assert set(scores(client, args())) == set(NAMES)


def test_the_snapshot_may_be_of_a_cluster_without_nodes(client, source):
    empty = a_snapshot()
    source.current = Snapshot(NodeTable([]), empty.state.take(np.array([], dtype=np.int64)), 1000.0)
    assert scores(client, args(["idle"])) == {"idle": 0}
    assert call(client, "filter", args(["idle"]))["NodeNames"] == ["idle"]
