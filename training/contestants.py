"""Who plays in an evaluation: models, heuristics, tuned linear scorers.

A contestant is a name and where it comes from, no more, so that any process of a cluster can make it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from agent.cluster import IntArray
from agent.errors import InputError
from agent.heuristics.expected_utilisation import ExpectedUtilisation
from agent.heuristics.random import Random
from agent.heuristics.registry import SCORERS, scorer_by_name
from agent.scorer import FeatureScorer, Scorer
from envs.batch_env import BatchEnv
from models.linear import MIX, load_linear, vector_names
from models.linear import RELEASED as LINEAR_WEIGHTS
from models.manifest import RELEASED, read_manifest, sha256_of
from models.onnx_scorer import OnnxScorer
from training.as_served import AsServed, ByGpus, Distortion
from training.play import choose
from training.thesis_agents import AGENTS, SCENARIOS, path_of, thesis_scorer, trained_for

Kind = Literal["heuristic", "linear", "linear_own", "thesis", "model", "released"]

RELEASED_NAME = "policy"  # what the sidecar serves: the default model, and the one for GPUs where pods ask for them
DEFAULT_FOLDER, GPU_FOLDER = RELEASED / "default", RELEASED / "gpu"


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    kind: Kind
    source: str  # a heuristic's name, or a folder
    baseline: bool  # whether a model has to beat it; others are only shown beside

    def plays(self, scenario: str) -> bool:
        """Whether it was made for this scenario at all."""
        if self.kind == "linear_own":
            return scenario in vector_names()
        return self.kind != "thesis" or trained_for(scenario)

    def facts(self) -> dict[str, str]:
        """Names the exact thing that played, for every result."""
        if self.kind == "model":
            return {self.name: read_manifest(Path(self.source)).sha256}
        if self.kind == "released":
            folders = [folder for folder in (DEFAULT_FOLDER, GPU_FOLDER) if folder.is_dir()]
            return {f"released/{folder.name}": read_manifest(folder).sha256 for folder in folders}
        if self.kind == "linear":
            return {"released/linear": sha256_of(LINEAR_WEIGHTS.read_bytes())}
        return {}


class Player(Protocol):
    """Takes one decision for every cluster of a batch."""

    def choose(self, env: BatchEnv, rng: np.random.Generator) -> IntArray: ...


@dataclass(frozen=True, slots=True)
class ByScorer:
    """A baseline: its own first choice, no rungs below it."""

    scorer: Scorer

    def choose(self, env: BatchEnv, rng: np.random.Generator) -> IntArray:
        return choose(self.scorer, env, rng)


def models_named(names: Sequence[str]) -> list[Contestant]:
    """The models of a command line; without any the released one, or the fallback until there is one."""
    if names:
        return [_named(name) for name in names]
    if DEFAULT_FOLDER.is_dir():
        return [Contestant(RELEASED_NAME, "released", str(DEFAULT_FOLDER), baseline=False)]
    return [_named(ExpectedUtilisation.name)]


def baselines() -> list[Contestant]:
    """Every heuristic, the linear scorer tuned for the same mix, and the agents of the thesis.

    The linear scorer tuned for one scenario alone is shown beside: no single model has to beat one for each world.
    """
    _refuse_missing()
    return [
        *(Contestant(name, "heuristic", name, baseline=True) for name in SCORERS),
        Contestant("linear", "linear", MIX, baseline=True),
        Contestant("linear_own", "linear_own", "", baseline=False),
        *(Contestant(f"thesis_{name}", "thesis", name, baseline=True) for name in AGENTS),
    ]


def _refuse_missing() -> None:
    """A released file that is gone must not be one baseline less: the model would look better than it is."""
    thesis = [path_of(name, scenario) for scenario in SCENARIOS for name in AGENTS]
    for path in (LINEAR_WEIGHTS, *thesis):
        if not path.is_file():
            raise InputError(f"{path}: no such file; it comes with Pilotfish and holds a baseline: copy it again")


def _named(name: str) -> Contestant:
    folder = Path(name)
    if folder.is_dir():
        read_manifest(folder)  # before minutes of work
        label = folder.resolve().name
        return Contestant(label if label not in SCORERS else str(folder), "model", str(folder), baseline=False)
    if name == "linear":
        return Contestant(name, "linear", MIX, baseline=False)
    try:
        return Contestant(scorer_by_name(name).name, "heuristic", name, baseline=False)
    except InputError as why:
        raise InputError(f"{name}: no folder of a model, and {why}") from why


def player(
    contestant: Contestant, scenario: str, rng: np.random.Generator, distortion: Distortion | None = None
) -> Player:
    """Made anew for every batch of episodes: what it draws and counts belongs to that batch alone."""
    scorer = _scorer(contestant, scenario, rng)
    if reads_features(contestant) and isinstance(scorer, FeatureScorer):
        return AsServed(scorer, distortion)
    return ByScorer(scorer)


def reads_features(contestant: Contestant) -> bool:
    """Models, and linear scorers: tuned for the same features, they are served the same way."""
    return contestant.kind not in ("heuristic", "thesis")


def _scorer(contestant: Contestant, scenario: str, rng: np.random.Generator) -> Scorer:
    match contestant.kind:
        case "heuristic" if contestant.source == Random.name:
            return Random(rng)
        case "heuristic":
            return scorer_by_name(contestant.source)
        case "model":
            return OnnxScorer.load(Path(contestant.source))
        case "released":
            return released()
        case "linear":
            return load_linear(MIX)
        case "linear_own":
            return load_linear(scenario)
        case "thesis":
            return thesis_scorer(contestant.source, scenario)


def released() -> OnnxScorer | ByGpus:
    """As the sidecar loads it."""
    default = OnnxScorer.load(DEFAULT_FOLDER)
    return ByGpus(default, OnnxScorer.load(GPU_FOLDER)) if GPU_FOLDER.is_dir() else default
