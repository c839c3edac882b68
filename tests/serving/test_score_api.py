import json

import numpy as np
import pytest

from tests.serving.conftest import NAMES, without_metrics

SMALL = {"requirements": {"cpu": "500m", "memory": "256Mi", "network_mbps": 50}}


def score(client, body):
    reply = client.post("/v1/score", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def a_pod(uid="u1", cpu="500m", **metadata):
    return {
        "metadata": {"uid": uid, "name": "web-1", **metadata},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}]},
    }


def order(reply):
    return [entry["node"] for entry in reply["scores"]]


# --- what is answered


def test_the_reply_ranks_feasible_nodes_by_expected_utilisation(client):
    reply = score(client, SMALL)
    assert order(reply)[0] == reply["best"] == "idle"
    assert order(reply)[-1] == "busy"
    assert set(order(reply)) == set(NAMES) - {"tainted"}
    assert reply["source"] == "expected_utilisation"
    assert reply["reason"] == ""
    assert reply["model"] is None
    assert reply["deadline_ms"] == 100.0
    assert reply["warnings"] == []


def test_scores_are_integers_from_0_to_10_in_the_order_of_the_values(client):
    entries = score(client, SMALL)["scores"]
    assert all(type(entry["score"]) is int and 0 <= entry["score"] <= 10 for entry in entries)
    assert entries[0]["score"] == 10
    assert [entry["score"] for entry in entries[1:]] == sorted((e["score"] for e in entries[1:]), reverse=True)
    assert all(entry["score"] < 10 for entry in entries[1:])
    assert [entry["value"] for entry in entries] == sorted((e["value"] for e in entries), reverse=True)


def test_filtered_nodes_come_with_every_reason(client):
    reply = score(client, {"requirements": {"cpu": "2", "latency_hard_ms": 15}})
    assert set(reply["filtered"]) == {"busy", "middle", "tainted", "small"}
    assert reply["filtered"]["small"] == ["Insufficient cpu: requested 2000m, free 1000m of 1000m"]
    assert "latencyHardConstraint" in reply["filtered"]["busy"][0]
    assert order(reply) == ["idle"]


def test_only_the_named_nodes_are_answered(client):
    reply = score(client, SMALL | {"nodes": ["middle", "busy", "tainted"]})
    assert order(reply) == ["middle", "busy"]
    assert set(reply["filtered"]) == {"tainted"}
    reply = score(client, SMALL | {"nodes": ["middle"]})
    assert reply["filtered"] == {}, "a node that was not asked for is not mentioned"


@pytest.mark.parametrize("body", [SMALL | {"nodes": []}, {"requirements": {"cpu": "900"}}])
def test_no_candidate_is_an_answer_not_an_error(client, body):
    reply = score(client, body)
    assert (reply["scores"], reply["best"], reply["source"]) == ([], None, "neutral")
    assert reply["reason"] == "no node is a candidate"


def test_ages_are_those_at_the_moment_of_the_answer(client, clock):
    clock.now_s += 2.5
    assert score(client, SMALL)["ages_s"] == {"cpu": 7.5, "memory": 7.5, "network": 7.5}


def test_a_metric_that_no_node_has_is_null_and_the_next_step_answers(client, source):
    source.current = without_metrics(source.current, "network")
    reply = score(client, SMALL)
    assert reply["ages_s"]["network"] is None
    assert reply["source"] == "least_allocated"
    assert "only 0 of 4 candidates have fresh" in reply["reason"]


def test_metrics_that_grew_old_are_not_used(client, clock):
    clock.now_s += 86.0
    assert score(client, SMALL)["source"] == "least_allocated"


# --- what is asked


def test_a_pod_in_api_form_is_read_like_kube_scheduler_reads_it(client):
    pod = a_pod()
    pod["spec"]["nodeSelector"] = {"disk": "hdd"}
    pod["spec"]["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    pod["spec"]["initContainers"] = [{"name": "i", "resources": {"requests": {"cpu": "3"}}}]
    reply = score(client, {"pod": pod})
    assert set(order(reply)) == {"middle", "tainted"}
    assert "small" in reply["filtered"], "the init container needs 3 cores"


def required(*expressions, fields=()):
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": terms}


@pytest.mark.parametrize(
    ("affinity", "nodes"),
    [
        (required({"key": "disk", "operator": "In", "values": ["ssd"]}), {"idle", "busy"}),
        (required({"key": "disk", "operator": "NotIn", "values": ["ssd"]}), {"middle", "small"}),
        (required(fields=[{"key": "metadata.name", "operator": "In", "values": ["small"]}]), {"small"}),
        ({"nodeAffinity": None}, {"idle", "busy", "middle", "small"}),
    ],
)
def test_required_node_affinity_of_a_pod_is_kept(client, affinity, nodes):
    pod = a_pod()
    pod["spec"]["affinity"] = affinity
    assert set(order(score(client, {"pod": pod}))) == nodes


def test_plain_requirements_can_select_and_tolerate(client):
    tolerations = [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]
    wanted = {"node_selector": {"disk": "hdd"}, "tolerations": tolerations, "gpus": 0}
    assert set(order(score(client, {"requirements": wanted}))) == {"middle", "tainted", "small"}
    assert order(score(client, {"requirements": {"gpus": 2}})) == ["idle"]


def test_expected_demand_comes_from_the_siblings(client):
    pod = a_pod(
        namespace="shop",
        labels={"pod-template-hash": "5d4f"},
        ownerReferences=[{"kind": "ReplicaSet", "name": "web-5d4f", "controller": True}],
    )
    demand = score(client, {"pod": pod})["demand"]
    assert demand == {
        "cpu_millicores": 250.0,
        "memory_mib": 128.0,
        "rx_mbps": 80.0,
        "tx_mbps": 40.0,
        "source": "siblings",
        "siblings": 3,
    }


def test_an_annotation_that_cannot_be_read_is_a_warning(client):
    reply = score(client, {"pod": a_pod(annotations={"latencyHardConstraint": "soon"})})
    assert "latencyHardConstraint" in reply["warnings"][0]
    assert reply["best"] == "idle"


# --- placements that nobody shows yet


def test_pods_with_a_uid_spread_instead_of_meeting_on_the_node_that_looked_best(client):
    bests = [score(client, {"pod": a_pod(uid=f"u{number}", cpu="1")})["best"] for number in range(4)]
    assert bests == ["idle"] * 4, "4 cores are free there"
    assert score(client, {"pod": a_pod(uid="u5", cpu="1")})["best"] != "idle"


def test_asking_again_for_the_same_pod_gives_the_same_answer(client):
    pod = a_pod(cpu="4")
    assert [score(client, {"pod": pod})["best"] for _ in range(3)] == ["idle"] * 3


def test_an_assumed_placement_is_forgotten_after_its_time(client, clock):
    score(client, {"pod": a_pod(cpu="4")})
    assert "idle" in score(client, {"pod": a_pod(uid="u2", cpu="4")})["filtered"]
    clock.now_s += 2.0
    assert score(client, {"pod": a_pod(uid="u2", cpu="4")})["best"] == "idle"


@pytest.mark.parametrize("question", [{"pod": a_pod(cpu="4"), "assume": False}, {"requirements": {"cpu": "4"}}])
def test_a_mere_question_leaves_no_trace(client, question):
    assert [score(client, question)["best"] for _ in range(3)] == ["idle"] * 3
    assert client.get("/v1/state").json()["assumed"] == 0


# --- what is refused


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("{", "not JSON"),
        ("[]", "JSON object"),
        ('{"requirements": {}, "pod": {}}', "either 'pod'"),
        ("{}", "either 'pod'"),
        ('{"requirement": {}}', "unknown field 'requirement'"),
        ('{"requirements": {"cpus": 1}}', "unknown field 'cpus'"),
        ('{"requirements": {"cpu": "x"}}', "'cpu': 'x' is not a Kubernetes quantity"),
        ('{"requirements": {"cpu": true}}', "'cpu' must be a Kubernetes quantity"),
        ('{"requirements": {"memory": -1}}', "'memory' must not be negative"),
        ('{"requirements": {"gpus": 0.5}}', "'gpus' must be a whole number"),
        ('{"requirements": {"gpus": 99}}', "'gpus' must be from 0 to 8"),
        ('{"requirements": {"network_mbps": -5}}', "'network_mbps' must be from 0"),
        ('{"requirements": {"network_mbps": "5"}}', "'network_mbps' must be a number, not a string"),
        ('{"requirements": {"latency_hard_ms": 0}}', "'latency_hard_ms' must be from"),
        ('{"requirements": {"labels": {"a": 1}}}', "every value of 'labels' must be a string"),
        ('{"requirements": 5}', "'requirements' must be an object, not an integer"),
        ('{"requirements": {}, "nodes": "idle"}', "'nodes' must be a list, not a string"),
        ('{"requirements": {}, "nodes": [1]}', "'nodes' must be a list of strings"),
        ('{"requirements": {}, "nodes": ["gone"]}', "unknown node 'gone'"),
        ('{"requirements": {}, "assume": 1}', "'assume' must be true or false"),
        ('{"pod": []}', "'pod' must be an object, not a list"),
        ('{"pod": {"metadata": 5}}', "'metadata' must be an object"),
        ('{"pod": {"metadata": {"uid": 5}}}', "'uid' must be a string"),
        ('{"pod": {"spec": {"priority": true}}}', "'priority' must be an integer, not true or false"),
        ('{"pod": {"spec": {"containers": 5}}}', "'containers'"),
        ('{"pod": {"spec": {"tolerations": [5]}}}', "'tolerations' must be a list of objects"),
        ('{"pod": {"spec": {"overhead": {"cpu": "-1"}}}}', "must not be negative"),
    ],
)
def test_bad_input_is_400_with_one_clear_message(client, body, said):
    reply = client.post("/v1/score", content=body)
    assert reply.status_code == 400
    assert list(reply.json()) == ["error"]
    assert said in reply.json()["error"]
    assert "\n" not in reply.json()["error"]


def test_too_many_nodes_are_refused(client):
    reply = client.post("/v1/score", json=SMALL | {"nodes": ["idle"] * 10_001})
    assert reply.status_code == 400
    assert "10001 names, at most 10000" in reply.json()["error"]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_long_is_413_however_it_is_sent(client, chunked):
    body = json.dumps(SMALL | {"nodes": ["x" * 1000] * 1100}).encode()
    content = iter([body[:600_000], body[600_000:]]) if chunked else body
    reply = client.post("/v1/score", content=content)
    assert reply.status_code == 413
    assert "1048576 bytes" in reply.json()["error"]


def test_without_a_state_of_the_cluster_the_answer_is_503(client, source):
    source.current = None
    reply = client.post("/v1/score", json=SMALL)
    assert reply.status_code == 503
    assert "not known yet" in reply.json()["error"]


def test_a_defect_is_500_without_its_details(client, decider, monkeypatch):
    monkeypatch.setattr(decider, "decide", lambda *_: 1 / 0)
    reply = client.post("/v1/score", json=SMALL)
    assert reply.status_code == 500
    assert reply.json() == {"error": "internal error; the log of the sidecar has the details"}


def test_an_unknown_value_is_null_not_nan(client, source):
    source.current.state.cpu_used_millicores[1] = np.nan
    source.current.state.cpu_age_s[1] = np.inf
    reply = client.get("/v1/state")
    assert b"NaN" not in reply.content
    assert reply.json()["nodes"][1]["cpu_used_millicores"] is None
    assert reply.json()["nodes"][1]["ages_s"]["cpu"] is None
