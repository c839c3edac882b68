"""The trained policy as the first step of the ladder: which model scores which pod, and what if one cannot be loaded.

The sidecar starts and answers without any model: what is wrong with one is logged once, stands in /v1/state, and the
heuristics serve.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.errors import InputError
from models.manifest import RELEASED, Kind
from models.onnx_scorer import OnnxScorer
from models.trial import answers_within
from serving.settings import NO_MODEL, RELEASED_MODEL, ModelSettings

logger = logging.getLogger(__name__)


class PolicyChoice:
    """A ``Scorer`` of two models: one for pods that ask for GPUs, where there is one, and one for all others."""

    name: ClassVar[str] = OnnxScorer.name
    needs: ClassVar[tuple[str, ...]] = OnnxScorer.needs

    def __init__(self, default: OnnxScorer, gpu: OnnxScorer | None = None) -> None:
        self.default = default
        self.gpu = gpu

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        return self.model_for(demand).score(state, demand, candidates)

    def model_for(self, demand: Demand) -> OnnxScorer:
        """One pod is asked about, in one cluster or in variations of it: the first row speaks for all."""
        asks_for_gpus = bool(np.ravel(demand.gpus)[0] > 0)
        return self.gpu if self.gpu is not None and asks_for_gpus else self.default


@dataclass(frozen=True, slots=True)
class Policy:
    """What was loaded, and why not more."""

    scorer: PolicyChoice | None = None
    problems: tuple[str, ...] = ()

    @property
    def models(self) -> tuple[OnnxScorer, ...]:
        both = () if self.scorer is None else (self.scorer.default, self.scorer.gpu)
        return tuple(model for model in both if model is not None)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(model.manifest.label for model in self.models)

    def label_for(self, demand: Demand, source: str) -> str | None:
        """The model behind this answer."""
        if self.scorer is None or source != self.scorer.name:
            return None
        return self.scorer.model_for(demand).manifest.label


def load_policy(settings: ModelSettings) -> Policy:
    """The models that the settings name; one that cannot be used becomes a problem, never an error."""
    problems: list[str] = []

    def load(named: str, kind: Kind, instead: str) -> OnnxScorer | None:
        try:
            return _load(named, kind)
        except InputError as why:
            logger.warning("no %s model: %s; %s instead", kind, why, instead)
            problems.append(str(why))
            return None

    default = load(settings.folder, "default", "heuristics score all pods")
    gpu = None if default is None else load(settings.gpu_folder, "gpu", "the default model scores all pods")
    return Policy(None if default is None else PolicyChoice(default, gpu), tuple(problems))


def reload_policy(settings: ModelSettings, old: Policy, deadline_s: float) -> Policy:
    """The models as they are now; if one of them cannot be used, all the old ones stay, with the new problems."""
    policy = load_policy(settings)
    problems = policy.problems or _too_slow(policy, deadline_s)
    if not problems:
        return policy
    logger.error("the models stay as they were: %s", "; ".join(problems))
    return Policy(old.scorer, problems)


def _too_slow(policy: Policy, deadline_s: float) -> tuple[str, ...]:
    """At the start a slow model is taken, as there is none to keep: the ladder gives it up where it is too slow."""
    return tuple(
        f"model {model.manifest.label} takes longer than the deadline of {1000.0 * deadline_s:g} ms"
        for model in policy.models
        if not answers_within(model, deadline_s)
    )


def model_folders(settings: ModelSettings) -> list[Path]:
    """Where the models of these settings are."""
    named: list[tuple[str, Kind]] = [(settings.folder, "default"), (settings.gpu_folder, "gpu")]
    return [_folder(name, kind) for name, kind in named if name != NO_MODEL]


def _folder(named: str, kind: Kind) -> Path:
    return RELEASED / kind if named == RELEASED_MODEL else Path(named)


def _load(named: str, kind: Kind) -> OnnxScorer | None:
    folder = _folder(named, kind)
    need_not_be = kind == "gpu" and named == RELEASED_MODEL
    if named == NO_MODEL or (need_not_be and not folder.exists()):
        return None
    model = OnnxScorer.load(folder)
    if model.manifest.kind != kind:
        raise InputError(f"{folder}: a {model.manifest.kind} model where a {kind} model is wanted; name another folder")
    logger.info("%s model: %s from %s", kind, model.manifest.label, folder)
    return model
