"""Models as they go wrong: real ONNX files that give NaN, or take far longer than a pod can wait."""

import json
import shutil
import time

import numpy as np
import onnx
import pytest
from fastapi.testclient import TestClient
from onnx import TensorProto, helper, numpy_helper

from agent.features import NODE_FEATURES, POD_FEATURES
from models.manifest import sha256_of
from serving.app import create_app
from serving.decide import new_decider
from serving.observability import Metrics
from serving.settings import LadderSettings, ModelSettings, Settings
from tests.serving.conftest import StillSource, a_snapshot
from tests.serving.test_metrics import samples

SMALL = {"requirements": {"cpu": "500m"}}
HEURISTIC = "expected_utilisation"


def network(nodes, initializers=()):
    """A model with the inputs and the output of a policy, whatever it computes between them."""
    inputs = [
        helper.make_tensor_value_info("nodes", TensorProto.FLOAT, ["batch", "count", len(NODE_FEATURES)]),
        helper.make_tensor_value_info("pod", TensorProto.FLOAT, ["batch", len(POD_FEATURES)]),
        helper.make_tensor_value_info("mask", TensorProto.BOOL, ["batch", "count"]),
    ]
    output = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", "count"])
    graph = helper.make_graph(nodes, "policy", inputs, [output], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def constant(name, values):
    return numpy_helper.from_array(np.asarray(values), name)


def giving_nan():
    """The square root of minus one for every node."""
    nodes = [
        helper.make_node("ReduceSum", ["nodes", "last"], ["sums"], keepdims=0),
        helper.make_node("Mul", ["sums", "zero"], ["zeros"]),
        helper.make_node("Sub", ["zeros", "one"], ["minus_one"]),
        helper.make_node("Sqrt", ["minus_one"], ["scores"]),
    ]
    initializers = [constant("last", np.array([2])), constant("zero", np.float32(0)), constant("one", np.float32(1))]
    return network(nodes, initializers)


def taking_long(size=1500, times=20):
    """Many products of large matrices before every answer."""
    nodes = [helper.make_node("ReduceSum", ["nodes", "last"], ["sums"], keepdims=0)]
    nodes.append(helper.make_node("ReduceSum", ["sums", "all"], ["nodes_sum"], keepdims=0))
    nodes.append(helper.make_node("Mul", ["matrix", "nodes_sum"], ["m0"]))
    nodes += [helper.make_node("MatMul", [f"m{step}", "matrix"], [f"m{step + 1}"]) for step in range(times)]
    nodes.append(helper.make_node("ReduceSum", [f"m{times}", "all"], ["total"], keepdims=0))
    nodes.append(helper.make_node("Add", ["sums", "total"], ["scores"]))
    matrix = np.eye(size, dtype=np.float32) * np.float32(0.5)
    initializers = [constant("last", np.array([2])), constant("all", np.array([0, 1])), constant("matrix", matrix)]
    return network(nodes, initializers)


@pytest.fixture
def serve(model_folder, tmp_path):
    deciders = []

    def with_model(content, deadline_ms=100.0):
        folder = shutil.copytree(model_folder, tmp_path / "faulty")
        (folder / "policy.onnx").write_bytes(content)
        manifest = json.loads((folder / "manifest.json").read_text()) | {"sha256": sha256_of(content)}
        (folder / "manifest.json").write_text(json.dumps(manifest))
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


def test_a_model_that_gives_nan_is_skipped_and_soon_left_alone(serve):
    client = serve(giving_nan())
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
    assert 0.3 < took_s < 0.75, "80 % of the deadline for the model; the rest of the margin is for a busy machine"
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
    assert max(times_s) < 0.45
    assert min(times_s[3:]) < 0.1, "the breaker is open"
