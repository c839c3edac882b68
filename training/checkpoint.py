"""A training run on disk: everything to go on from, or to export from, in one file that is never half written."""

from __future__ import annotations

import json
import pickle
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agent.cluster import FloatArray
from agent.errors import InputError
from agent.features import SCHEMA_VERSION
from models.network import NodeScorer
from training.config import TrainConfig, parse_config
from training.worlds import Origin

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    config: TrainConfig
    scorer: dict[str, Any]  # the running mean of the network: what is released
    policy: dict[str, Any]  # the state of the network that learns, and of its critic
    optimizer: dict[str, Any]
    updates: int
    decisions: int
    minutes: float
    best: float  # relative cost of the best evaluation so far
    since_best: int  # evaluations since then
    origin: Origin | None  # of the worlds; None: synthetic

    @property
    def priors(self) -> FloatArray:
        """The linear rules, as they are by now."""
        return np.asarray(self.scorer["rule.weight"].numpy())

    def network(self) -> NodeScorer:
        """What is exported."""
        network = NodeScorer(self.config.network.hidden, self.priors)
        network.load_state_dict(self.scorer)
        return network


def save_checkpoint(checkpoint: Checkpoint, path: Path) -> None:
    beside = path.with_name(f".{path.name}.new")
    content = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "config": checkpoint.config.model_dump_json(),
        "origin": None if checkpoint.origin is None else asdict(checkpoint.origin),
        **{name: getattr(checkpoint, name) for name in _FACTS},
    }
    torch.save(content, beside)
    beside.replace(path)


def load_checkpoint(path: Path) -> Checkpoint:
    if not path.is_file():
        raise InputError(f"{path}: no such checkpoint; `pilotfish train --out DIR` writes DIR/checkpoint.pt")
    try:
        content = torch.load(path, weights_only=True)  # tensors and plain values: a checkpoint cannot run code
    except (RuntimeError, pickle.UnpicklingError, EOFError, OSError, ValueError) as why:
        raise InputError(f"{path}: not a checkpoint, or cut short; train again or take an older one") from why
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"{path}: not a checkpoint of format {FORMAT}; train again")
    if content.get("schema_version") != SCHEMA_VERSION:
        raise InputError(
            f"{path}: made for feature schema {content.get('schema_version')}, this is {SCHEMA_VERSION}: train again"
        )
    config = parse_config(json.loads(content["config"]), str(path))
    content = _BEFORE | content
    origin = None if content["origin"] is None else Origin(**content["origin"])
    return Checkpoint(config, origin=origin, **{name: content[name] for name in _FACTS})


_FACTS = ("scorer", "policy", "optimizer", "updates", "decisions", "minutes", "best", "since_best")
_BEFORE: dict[str, Any] = {"since_best": 0, "origin": None}  # older checkpoints have neither
