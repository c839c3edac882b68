"""The trained policy in the sidecar: it answers when it can, and the sidecar answers when it cannot."""

import json
import logging
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from fastapi.testclient import TestClient

from agent.cluster import Pod
from agent.errors import InputError
from agent.nodetable import NodeTable
from models.manifest import MANIFEST_FILE, MODEL_FILE, FeatureRange
from models.onnx_scorer import OnnxScorer
from serving.app import create_app
from serving.configuration import load_settings
from serving.decide import new_decider
from serving.observability import Metrics
from serving.policy import load_policy
from serving.settings import LadderSettings, ModelSettings, Settings
from tests.serving.conftest import NAMES, a_snapshot, without_metrics
from tests.tiny_model import release

SMALL = {"requirements": {"cpu": "500m", "memory": "256Mi", "network_mbps": 50}}
WITH_GPU = {"requirements": {"cpu": "500m", "gpus": 1}}


@pytest.fixture
def folder(model_folder, tmp_path):
    return shutil.copytree(model_folder, tmp_path / "default")


@pytest.fixture(scope="module")
def gpu_folder(tmp_path_factory):
    return release(tmp_path_factory.mktemp("model") / "gpu", kind="gpu", seed=1)


@pytest.fixture
def start(source, clock):
    """A sidecar with these models; it stays up until the test ends."""
    running = []

    def begin(folder, gpu_folder="none", **ladder):
        models = ModelSettings(folder=str(folder), gpu_folder=str(gpu_folder))
        settings = Settings(model=models, ladder=LadderSettings(**ladder))
        metrics = Metrics()
        decider = new_decider(settings, clock, metrics.on_ranking, metrics.on_skip)
        client = TestClient(create_app(settings, source, decider, metrics), raise_server_exceptions=False)
        running.append(client.__enter__())
        client.decider = decider
        return client

    yield begin
    for client in running:
        client.__exit__(None, None, None)


def score(client, body=SMALL):
    reply = client.post("/v1/score", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def models(client):
    return client.get("/v1/state").json()["models"]


def test_the_policy_answers_first_and_the_reply_names_the_model(start, folder):
    client = start(folder)
    label = OnnxScorer.load(folder).manifest.label
    reply = score(client)
    assert (reply["source"], reply["reason"], reply["model"]) == ("policy", "", label)
    assert models(client) == {"loaded": [label], "problems": []}
    steps = [step["step"] for step in client.get("/v1/state").json()["ladder"]]
    assert steps == ["policy", "expected_utilisation", "least_allocated"]


def test_the_values_are_those_of_the_model_for_the_state_of_the_cluster(start, folder):
    client = start(folder)
    decision = client.decider.decide(a_snapshot(), a_pod(), assume=False)
    alone = OnnxScorer.load(folder).score(a_snapshot().state, decision.demand, decision.candidates)
    np.testing.assert_allclose(decision.ranking.scores.values[decision.candidates], alone[decision.candidates])


def a_pod():
    return Pod(uid="u1", cpu_request_millicores=500, memory_request_bytes=2**28)


def test_pods_that_ask_for_gpus_are_scored_by_the_gpu_model(start, folder, gpu_folder):
    client = start(folder, gpu_folder)
    assert score(client, WITH_GPU)["model"].startswith("gpu@")
    assert score(client)["model"].startswith("default@")
    assert [label.partition("@")[0] for label in models(client)["loaded"]] == ["default", "gpu"]


def test_without_a_gpu_model_the_default_one_scores_them(start, folder):
    assert score(start(folder), WITH_GPU)["model"].startswith("default@")


def test_without_metrics_the_requests_decide(start, folder, source):
    source.current = without_metrics(source.current, "network")
    reply = score(start(folder))
    assert (reply["source"], reply["model"]) == ("least_allocated", None)
    assert "policy skipped: only 0 of 4 candidates have fresh" in reply["reason"]


def test_a_cluster_unlike_training_gets_the_heuristic_and_opens_no_breaker(start, tmp_path):
    nowhere = FeatureRange(min=5.0, low=5.0, high=6.0, max=6.0)
    features = ("cpu_used_ratio", "rx_ratio", "tx_ratio", "rx_expected_ratio")
    client = start(release(tmp_path / "odd", **dict.fromkeys(features, nowhere)))
    for _ in range(5):
        reply = score(client)
        assert (reply["source"], reply["model"]) == ("expected_utilisation", None)
        assert re.match(r"policy skipped: \d+\.\d% of the values are off the range", reply["reason"])
    assert client.get("/v1/state").json()["ladder"][0] == {"step": "policy", "breaker": "closed"}
    skipped = 'pilotfish_ladder_step_skipped_total{reason="out_of_range",step="policy"} 5.0'
    assert skipped in client.get("/metrics").text


def some_of(snapshot, names):
    kept = [index for index, name in enumerate(snapshot.nodes.names) if name in names]
    nodes = NodeTable(snapshot.nodes[index] for index in kept)
    return replace(snapshot, nodes=nodes, state=snapshot.state.take(np.array(kept)), pods_by_app={})


def test_nodes_come_and_go_while_the_policy_answers(start, folder, source):
    client, everything = start(folder), source.current
    for names in ({"idle"}, {"idle", "busy", "small"}, set(NAMES)):
        source.current = some_of(everything, names)
        reply = score(client)
        assert reply["source"] == "policy"
        assert {entry["node"] for entry in reply["scores"]} == names - {"tainted"}


# --- models that cannot be used


def tampered(folder):
    model = bytearray((folder / MODEL_FILE).read_bytes())
    model[-5] ^= 1
    (folder / MODEL_FILE).write_bytes(model)


def truncated(folder):
    (folder / MODEL_FILE).write_bytes((folder / MODEL_FILE).read_bytes()[:100])


def of_another_schema(folder):
    content = json.loads((folder / MANIFEST_FILE).read_text())
    (folder / MANIFEST_FILE).write_text(json.dumps(content | {"schema_version": 99}))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (tampered, "policy.onnx: sha256 is"),
        (truncated, "policy.onnx: sha256 is"),
        (of_another_schema, "schema_version is 99"),
        (shutil.rmtree, "no such model folder"),
    ],
)
def test_a_model_that_cannot_be_used_is_one_warning_and_the_heuristics_answer(start, folder, caplog, harm, said):
    harm(folder)
    client = start(folder)
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert said in warnings[0].getMessage()
    assert "heuristics score all pods instead" in warnings[0].getMessage()
    assert score(client)["source"] == "expected_utilisation"
    assert client.get("/readyz").status_code == 200
    (problem,) = models(client)["problems"]
    assert said in problem


def test_a_gpu_model_that_cannot_be_used_leaves_the_default_one(start, folder, gpu_folder, tmp_path, caplog):
    broken = shutil.copytree(gpu_folder, tmp_path / "gpu")
    truncated(broken)
    client = start(folder, broken)
    assert score(client, WITH_GPU)["model"].startswith("default@")
    assert "the default model scores all pods instead" in caplog.text


def test_a_model_of_the_other_kind_is_refused(folder, gpu_folder, caplog):
    policy = load_policy(ModelSettings(folder=str(gpu_folder)))
    assert policy.scorer is None
    assert "a gpu model where a default model is wanted" in policy.problems[0]


@pytest.mark.parametrize(
    ("named", "by"), [("NetworkTraffic", "network_traffic"), ("LA", "la"), ("expected_utilisation",) * 2]
)
def test_without_the_policy_the_heuristic_that_is_named_answers(start, named, by):
    assert score(start("none", heuristic=named))["source"] == by


def test_an_unknown_heuristic_is_refused_with_the_choices():
    with pytest.raises(InputError, match=r"heuristic: .*unknown scorer 'Fastest'.*network_traffic"):
        load_settings(ladder={"heuristic": "Fastest"})


def test_none_switches_the_policy_off_without_a_word(caplog):
    policy = load_policy(ModelSettings(folder="none"))
    assert (policy.scorer, policy.problems, caplog.records) == (None, (), [])


def test_released_means_the_model_that_is_shipped(folder, monkeypatch):
    monkeypatch.setattr("serving.policy.RELEASED", folder.parent)
    policy = load_policy(ModelSettings())
    assert [label.partition("@")[0] for label in policy.labels] == ["default"], "no gpu model is shipped here"
    assert policy.problems == ()
