"""A released model back as a network that can learn on: the weights, read from its ONNX graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from agent.cluster import FloatArray
from agent.errors import InputError
from agent.features import NODE_FEATURES
from models.gpu_network import GATES, STATES
from models.manifest import MODEL_FILE, read_model
from models.network import NodeScorer

_MULTIPLICATION = "MatMul"


def network_of(folder: Path) -> NodeScorer:
    """The network of a model folder; an ``InputError`` where the model is another kind of network."""
    _, model = read_model(folder)
    weights = _weights(onnx.load_from_string(model))
    try:
        scorer = NodeScorer(len(weights["from_node.bias"]), weights["rule.weight"].numpy())
        weights.setdefault("gate.weight", torch.zeros(1, 2 * scorer.hidden))  # of a single rule there is no choice
        scorer.load_state_dict(weights)
    except (KeyError, RuntimeError) as why:
        raise InputError(f"{folder / MODEL_FILE}: not the network of models/network.py: {why}") from why
    return scorer


def gpu_weights(model: bytes) -> FloatArray:
    """The weights inside the ONNX model of models/gpu_network.py, (states, gates, features)."""
    shape = (len(GATES), len(NODE_FEATURES))
    stored = onnx.load_from_string(model).graph.initializer
    tables = [numpy_helper.to_array(each) for each in stored if tuple(each.dims) == shape]
    if len(tables) != len(STATES):
        raise InputError("this is no model of training/train_gpu.py: it does not hold the weights of one")
    return np.stack(tables).astype(np.float64)


def _weights(model: onnx.ModelProto) -> dict[str, torch.Tensor]:
    """By the names of the network. The exporter renames and turns the matrices, but names the node that uses each."""
    stored = {each.name: torch.tensor(numpy_helper.to_array(each)) for each in model.graph.initializer}
    weights = {name: values for name, values in stored.items() if "::" not in name}
    for node in model.graph.node:
        if node.op_type == _MULTIPLICATION and node.input[1] in stored:
            layer = node.name.strip("/").removesuffix(f"/{_MULTIPLICATION}")
            weights[f"{layer}.weight"] = stored[node.input[1]].T.contiguous()
    return weights
