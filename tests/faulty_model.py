"""Models as they go wrong: real ONNX files, with the inputs and the output of a policy."""

import json

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from agent.features import NODE_FEATURES, POD_FEATURES
from models.manifest import sha256_of


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


def with_content(folder, content):
    """This model in a folder that was another's, with a manifest that vouches for it."""
    (folder / "policy.onnx").write_bytes(content)
    manifest = json.loads((folder / "manifest.json").read_text()) | {"sha256": sha256_of(content)}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


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


def taking_long(size=1200, times=16):
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


def giving_nan_for(count):
    """Finite scores, but for clusters of exactly so many nodes: nothing divided by nothing."""
    nodes = [
        helper.make_node("ReduceSum", ["nodes", "last"], ["sums"], keepdims=0),
        helper.make_node("Mul", ["sums", "zero"], ["zeros"]),
        helper.make_node("Shape", ["mask"], ["shape"], start=1),
        helper.make_node("Cast", ["shape"], ["count"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["count", "fatal"], ["off"]),
        helper.make_node("Div", ["zeros", "off"], ["scores"]),
    ]
    initializers = [
        constant("last", np.array([2])),
        constant("zero", np.float32(0)),
        constant("fatal", np.float32(count)),
    ]
    return network(nodes, initializers)


def giving_one_score():
    """For each cluster one, as if its nodes did not matter."""
    nodes = [
        helper.make_node("ReduceSum", ["nodes", "last"], ["sums"], keepdims=0),
        helper.make_node("ReduceSum", ["sums", "second"], ["scores"], keepdims=1),
    ]
    return network(nodes, [constant("last", np.array([2])), constant("second", np.array([1]))])
