"""The two learned agents of the NetworkTraffic thesis as baselines: what they see, how they score, how they are stored.

``document``: the agent of the document (S1.28). It sees the receive rate of every worker and learns to name the lowest.
``dqn``: the agent of the later code (S1.30), a DQN with the published settings; here it sees, node after node, features
of our own schema, and learns from our costs, so that it competes fairly.

Both are small networks over a fixed number of node slots, in a fixed order: neither can answer for more nodes than it
was trained on, and swapping two nodes changes its answer. That is what our policy does better (S1.20, S1.21).

How to compare them (``pilotfish evaluate`` does)::

    for name in AGENTS:
        if trained_for(scenario.name):
            played = play(thesis_scorer(name, scenario.name), tape, seed)

Training is in training.dqn and needs torch; this module does not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.errors import InputError
from agent.features import NODE_COLUMN, POD_FEATURES, SCHEMA_VERSION, Encoding, FeatureArray, encode
from agent.scorer import Scorer, ScoringUnavailable

AGENTS = ("document", "dqn")
SCENARIOS = ("deployments", "microservices", "bursts", "edge", "overload")  # of a fixed number of nodes; released
FOLDER = Path(__file__).parent.parent / "models" / "released" / "thesis"

RATE_SCALE_MBPS = 100.0
# Requests, expected use, siblings, latency and price: what our best heuristics read. All 44 would be ten times the
# weights for what 500,000 steps can teach.
DQN_FEATURES = (
    "cpu_requested_ratio",
    "memory_requested_ratio",
    "cpu_expected_ratio",
    "memory_expected_ratio",
    "rx_expected_ratio",
    "tx_expected_ratio",
    "siblings_on_node_share",
    "siblings_in_zone_share",
    "latency_excess",
    "empty",
)
_COLUMNS = [NODE_COLUMN[name] for name in DQN_FEATURES]

Layers = tuple[tuple[NDArray[np.float32], NDArray[np.float32]], ...]  # weights (out, in) and bias (out,) of each


def slots_observed(name: str, slots: int) -> int:
    """Numbers that an agent of so many node slots sees."""
    return slots if name == "document" else slots * len(DQN_FEATURES) + len(POD_FEATURES)


def document_observation(rx_mbps: FloatArray, slots: int) -> FeatureArray:
    """Receive rates in units of 100 Mbps, (..., slots); an unknown rate takes the mean of the others."""
    known = np.isfinite(rx_mbps)
    total = np.sum(rx_mbps, axis=-1, where=known, keepdims=True)
    mean = total / np.maximum(known.sum(axis=-1, keepdims=True), 1)
    return _padded(np.where(known, rx_mbps, mean) / RATE_SCALE_MBPS, slots)


def dqn_observation(encoding: Encoding, slots: int) -> FeatureArray:
    """The features of every slot one after the other, then those of the pod, (..., slots x features + pod)."""
    nodes = _padded(np.moveaxis(encoding.nodes[..., _COLUMNS], -2, -1), slots)  # (..., features, slots)
    flat = np.moveaxis(nodes, -1, -2).reshape(*nodes.shape[:-2], slots * len(_COLUMNS))
    return np.concatenate([flat, encoding.pod], axis=-1).astype(np.float32)


def _padded(values: NDArray[Any], slots: int) -> FeatureArray:
    """Nodes on the last axis, as many as there are slots."""
    nodes = values.shape[-1]
    if nodes > slots:
        raise ScoringUnavailable(f"trained for {slots} nodes, asked about {nodes}")
    empty = np.zeros((*values.shape[:-1], slots - nodes))
    return np.concatenate([values, empty], axis=-1).astype(np.float32)


@dataclass(frozen=True, slots=True)
class DocumentScorer:
    """S1.28: the values of "this node"; that of "do not schedule" has no node, and a sidecar always answers."""

    slots: int
    layers: Layers
    facts: Mapping[str, Any] = field(default_factory=dict)
    name: ClassVar[str] = "thesis_document"
    needs: ClassVar[tuple[str, ...]] = ("network",)

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        values = forward(self.layers, document_observation(state.rx_mbps, self.slots))
        return values[..., : state.node_count]


@dataclass(frozen=True, slots=True)
class DqnScorer:
    """S1.30: the value of every node slot. No exploration: the same state has the same answer (S1.31)."""

    slots: int
    layers: Layers
    facts: Mapping[str, Any] = field(default_factory=dict)
    name: ClassVar[str] = "thesis_dqn"
    needs: ClassVar[tuple[str, ...]] = ("cpu", "memory", "network")

    def rate(self, encoding: Encoding, candidates: BoolArray) -> FloatArray:
        return forward(self.layers, dqn_observation(encoding, self.slots))[..., : candidates.shape[-1]]

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        return self.rate(encode(state, demand, candidates), candidates)


ThesisScorer = DocumentScorer | DqnScorer
SCORER_OF: dict[str, type[DocumentScorer] | type[DqnScorer]] = {"document": DocumentScorer, "dqn": DqnScorer}


def forward(layers: Layers, observation: FeatureArray) -> FloatArray:
    """Linear layers with ReLU between them."""
    values = observation
    for index, (weights, bias) in enumerate(layers):
        values = values @ weights.T + bias
        if index + 1 < len(layers):
            values = np.maximum(values, 0.0)
    return values.astype(np.float64)


# --- storage


def trained_for(scenario: str, folder: Path = FOLDER) -> bool:
    """Whether both agents have weights for this scenario."""
    return all(path_of(name, scenario, folder).is_file() for name in AGENTS)


def thesis_scorer(name: str, scenario: str, folder: Path = FOLDER) -> Scorer:
    """An agent of AGENTS as it was trained for one scenario."""
    if name not in AGENTS:
        raise InputError(f"unknown thesis agent {name!r}: choose one of {', '.join(AGENTS)}")
    path = path_of(name, scenario, folder)
    if not path.is_file():
        there = sorted(file.stem.partition("-")[2] for file in folder.glob(f"{name}-*.npz"))
        choices = ", ".join(there) or "none"
        raise InputError(f"the thesis agent {name!r} was not trained for scenario {scenario!r}, only for {choices}")
    return load(name, path)


def path_of(name: str, scenario: str, folder: Path = FOLDER) -> Path:
    return folder / f"{name}-{scenario}.npz"


def save(scorer: ThesisScorer, path: Path) -> None:
    """Write beside, then rename: a file with this name is whole."""
    arrays: dict[str, Any] = {"schema_version": np.array(SCHEMA_VERSION), "slots": np.array(scorer.slots)}
    arrays["facts"] = np.array(json.dumps(dict(scorer.facts), sort_keys=True))
    for index, (weights, bias) in enumerate(scorer.layers):
        arrays[f"weights_{index}"], arrays[f"bias_{index}"] = weights, bias
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        np.savez_compressed(file, **arrays)
    part.replace(path)


def load(name: str, path: Path) -> ThesisScorer:
    """The agent of a file; it scores as it did when it was saved, to the last bit."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (OSError, EOFError, ValueError, BadZipFile) as why:
        raise InputError(f"{path}: cannot be read as a thesis agent: {why}") from why
    version = int(arrays.get("schema_version", -1))
    if version != SCHEMA_VERSION:
        raise InputError(f"{path}: made for feature schema {version}, this is {SCHEMA_VERSION}: train it again")
    depth = sum(key.startswith("weights_") for key in arrays)
    layers = tuple((arrays[f"weights_{index}"], arrays[f"bias_{index}"]) for index in range(depth))
    return SCORER_OF[name](int(arrays["slots"]), layers, json.loads(str(arrays["facts"])))
