"""Models as they go wrong: real ONNX files that give NaN, or take far longer than a pod can wait."""

import shutil
import time

import pytest
from fastapi.testclient import TestClient

from serving.app import create_app
from serving.decide import new_decider
from serving.observability import Metrics
from serving.settings import LadderSettings, ModelSettings, Settings
from tests.faulty_model import giving_nan, giving_nan_for, taking_long, with_content
from tests.serving.conftest import NAMES, StillSource, a_snapshot
from tests.serving.test_metrics import samples

SMALL = {"requirements": {"cpu": "500m"}}
HEURISTIC = "expected_utilisation"


@pytest.fixture
def serve(model_folder, tmp_path):
    deciders = []

    def with_model(content, deadline_ms=100.0):
        folder = with_content(shutil.copytree(model_folder, tmp_path / "faulty"), content)
        settings = Settings(
            model=ModelSettings(folder=str(folder), gpu_folder="none"), ladder=LadderSettings(deadline_ms=deadline_ms)
        )
        metrics = Metrics()
        decider = new_decider(settings, time.monotonic, metrics.on_ranking, metrics.on_skip)
        deciders.append(decider)
        source = StillSource(a_snapshot(time.monotonic()))
        return TestClient(create_app(settings, source, decider, metrics), raise_server_exceptions=False)

    yield with_model
    for decider in deciders:
        decider.ladder._within(lambda: None, 30.0)  # onnxruntime aborts a process that ends while it computes


def test_a_model_that_gives_nan_is_found_out_at_the_start(serve):
    client = serve(giving_nan())
    (problem,) = client.get("/v1/model").json()["problems"]
    assert "scores of model" in problem
    assert "are not finite" in problem
    reply = client.post("/v1/score", json=SMALL).json()
    assert (reply["source"], reply["reason"]) == (HEURISTIC, "")


def test_a_model_that_gives_nan_for_some_clusters_only_is_skipped_there_and_soon_left_alone(serve):
    client = serve(giving_nan_for(len(NAMES) - 1))  # all but the tainted one
    assert client.get("/v1/model").json()["problems"] == []
    replies = [client.post("/v1/score", json=SMALL).json() for _ in range(4)]
    assert {reply["source"] for reply in replies} == {HEURISTIC}
    assert "are not finite" in replies[0]["reason"]
    assert "its breaker is open" in replies[3]["reason"]
    assert all(isinstance(each["score"], int) for each in replies[0]["scores"])
    assert samples(client)["pilotfish_breaker_open", (("step", "policy"),)] == 1


def test_a_slow_model_is_given_up_in_time_for_the_heuristic_to_answer_before_the_deadline(serve):
    client = serve(taking_long(), deadline_ms=500.0)
    began_s = time.monotonic()
    reply = client.post("/v1/score", json=SMALL).json()
    took_s = time.monotonic() - began_s
    assert reply["source"] == HEURISTIC
    assert "policy skipped: it did not answer within" in reply["reason"]
    assert 0.3 < took_s < 5.0, "80 % of the deadline for the model; the rest is for a busy machine"
    skipped = samples(client)["pilotfish_ladder_step_skipped_total", (("reason", "deadline"), ("step", "policy"))]
    assert skipped == 1


def test_a_slow_model_costs_three_pods_some_time_and_the_others_none(serve):
    client = serve(taking_long(), deadline_ms=200.0)
    sources, times_s = [], []
    for _ in range(6):
        began_s = time.monotonic()
        sources.append(client.post("/v1/score", json=SMALL).json()["source"])
        times_s.append(time.monotonic() - began_s)
    assert set(sources) == {HEURISTIC}
    assert min(times_s[:3]) > 0.1, "each waits for its share of the deadline"
    assert min(times_s[3:]) < 0.1, "the breaker is open"
