"""A trained scorer as a folder that the sidecar loads: ``policy.onnx``, ``manifest.json`` and a model card.

The folder is made beside its place, checked there as the sidecar will use it, and only then moved: nobody ever loads
half a model, and one that does not answer like the trained network is not written at all.
"""

from __future__ import annotations

import platform
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

import numpy as np
import onnx
import torch

from agent.cluster import BoolArray, FloatArray
from agent.errors import InputError
from agent.features import NODE_FEATURES, POD_FEATURES, Encoding, FeatureArray
from models.manifest import (
    CARD_FILE,
    MANIFEST_FILE,
    MODEL_FILE,
    EvaluationRow,
    FeatureRange,
    Kind,
    Manifest,
    TrainingFacts,
    sha256_of,
)
from models.onnx_scorer import INPUTS, OUTPUT, OnnxScorer
from training.model_card import write_words

OPSET = 17
MAX_DIFFERENCE = 1e-5  # of a score, over the largest score of the state where that is above 1: both count in float32
CHECKED_STATES = 1000
CHECKED_NODES = 500
LIBRARIES = ("pilotfish", "numpy", "onnx", "onnxruntime", "sb3-contrib", "stable-baselines3", "torch")


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What the manifest says beside what can be read off the model itself."""

    kind: Kind
    created: date
    node_features: Mapping[str, FeatureRange]
    pod_features: Mapping[str, FeatureRange]
    training: TrainingFacts
    evaluation: Sequence[EvaluationRow] = ()


def export(scorer: torch.nn.Module, folder: Path, facts: ModelFacts, checked_states: int = CHECKED_STATES) -> Manifest:
    """Write the model folder; one that is there already is replaced as a whole."""
    refuse_foreign(folder)
    model = to_onnx(scorer)
    manifest = _manifest(model, facts)
    with beside(folder) as draft:
        (draft / MODEL_FILE).write_bytes(model)
        write_words(manifest, draft)
        check_equal(scorer, OnnxScorer.load(draft), checked_states)
    return manifest


def to_onnx(scorer: torch.nn.Module) -> bytes:
    """The network as ONNX, any number of clusters and nodes; the same weights give the same bytes."""
    nodes, pod, mask = (torch.from_numpy(array) for array in _random_state(np.random.default_rng(0), 3))
    everything = {"nodes": {0: "batch", 1: "node"}, "pod": {0: "batch"}, "mask": {0: "batch", 1: "node"}}
    with TemporaryDirectory() as folder, warnings.catch_warnings(), _evaluating(scorer):
        traced = Path(folder) / MODEL_FILE
        # torch prefers its newer exporter, which needs one more library to do the same for so small a graph
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            scorer,
            (nodes, pod, mask),
            traced,
            dynamo=False,
            opset_version=OPSET,
            input_names=list(INPUTS),
            output_names=[OUTPUT],
            dynamic_axes=everything | {OUTPUT: {0: "batch", 1: "node"}},
        )
        model = onnx.load(traced)
    for node in model.graph.node:
        node.ClearField("doc_string")  # paths of this machine
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString(deterministic=True))


def check_equal(scorer: torch.nn.Module, served: OnnxScorer, states: int = CHECKED_STATES) -> None:
    """Refuse a model that does not answer like the network, on random states of 1 to 500 nodes within its ranges."""
    rng = np.random.default_rng(0)
    for _ in range(states):
        nodes, pod, mask = _random_state(rng, int(rng.integers(1, CHECKED_NODES + 1)), served.manifest)
        with torch.no_grad(), _evaluating(scorer):
            wanted = scorer(*(torch.from_numpy(array) for array in (nodes, pod, mask))).double().numpy()
        given = served.rate(Encoding(nodes, pod), mask)
        difference = np.abs(given - wanted)[mask].max() / max(np.abs(wanted[mask]).max(), 1.0)
        if not difference <= MAX_DIFFERENCE:
            raise InputError(
                f"the exported model differs from the network by {difference:.2g} on {mask.shape[-1]} nodes, more"
                f" than {MAX_DIFFERENCE:g}: nothing is written"
            )


def _random_state(
    rng: np.random.Generator, nodes: int, manifest: Manifest | None = None
) -> tuple[FeatureArray, FeatureArray, BoolArray]:
    """A batch of one cluster, some of its nodes no candidates."""
    node_values = rng.random((1, nodes, len(NODE_FEATURES)))
    pod_values = rng.random((1, len(POD_FEATURES)))
    if manifest is not None:
        node_values = _spread(node_values, manifest.node_features, NODE_FEATURES)
        pod_values = _spread(pod_values, manifest.pod_features, POD_FEATURES)
    mask = rng.random((1, nodes)) < 0.8
    mask[0, rng.integers(nodes)] = True
    return node_values.astype(np.float32), pod_values.astype(np.float32), mask


def _spread(shares: FloatArray, ranges: Mapping[str, FeatureRange], names: Mapping[str, str]) -> FloatArray:
    least = np.array([ranges[name].min for name in names])
    most = np.array([ranges[name].max for name in names])
    return np.asarray(least + shares * (most - least))


def _manifest(model: bytes, facts: ModelFacts) -> Manifest:
    return Manifest(
        kind=facts.kind,
        created=facts.created,
        sha256=sha256_of(model),
        node_features=dict(facts.node_features),
        pod_features=dict(facts.pod_features),
        training=facts.training,
        versions={"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}},
        evaluation=tuple(facts.evaluation),
    )


def refuse_foreign(folder: Path) -> None:
    """Only a model folder is replaced: a mistyped --out must not cost somebody's files."""
    if folder.is_dir():
        foreign = sorted({path.name for path in folder.iterdir()} - {MODEL_FILE, MANIFEST_FILE, CARD_FILE})
        if foreign:
            raise InputError(f"{folder} holds {foreign[0]}, which is no part of a model: choose another folder")
    elif folder.exists():
        raise InputError(f"{folder} is a file: choose a folder")


def replace_by(model: Path, folder: Path) -> None:
    """The model of one folder in the place of another's, all of it or nothing."""
    with beside(folder) as draft:
        for name in (MODEL_FILE, MANIFEST_FILE, CARD_FILE):
            shutil.copyfile(model / name, draft / name)


@contextmanager
def beside(folder: Path) -> Iterator[Path]:
    """A new folder that takes the place of this one when all went well, and leaves no trace otherwise."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    workshop = Path(mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        draft = workshop / "new"
        draft.mkdir()
        yield draft
        if folder.exists():
            folder.rename(workshop / "old")
        draft.rename(folder)
    finally:
        shutil.rmtree(workshop)


@contextmanager
def _evaluating(scorer: torch.nn.Module) -> Iterator[None]:
    was_training = scorer.training
    scorer.eval()
    try:
        yield
    finally:
        scorer.train(was_training)
