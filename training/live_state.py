"""A live run on disk: everything to go on from, in one file that is never half written.

It is no checkpoint of ``pilotfish train``, on purpose: ``pilotfish export`` refuses it, so that no model leaves a live
run but through its examination.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

from agent.errors import InputError

FORMAT = "live-1"


@dataclass(frozen=True, slots=True)
class LiveState:
    config_digest: str
    released_sha256: str  # of the model that it began with
    policy: dict[str, Any]  # the network that learns, and its critic
    optimizer: dict[str, Any]
    guard: dict[str, Any]
    updates: int
    pods: int
    minutes: float


def save_state(state: LiveState, path: Path) -> None:
    beside = path.with_name(f".{path.name}.new")
    torch.save({"format": FORMAT, **{each.name: getattr(state, each.name) for each in fields(state)}}, beside)
    beside.replace(path)


def load_state(path: Path) -> LiveState:
    if not path.is_file():
        raise InputError(f"{path}: nothing to go on from; begin without --resume")
    try:
        content = torch.load(path, weights_only=True)  # tensors and plain values: it cannot run code
    except (RuntimeError, pickle.UnpicklingError, EOFError, OSError, ValueError) as why:
        raise InputError(f"{path}: not the state of a live run, or cut short; begin without --resume") from why
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise InputError(f"{path}: not the state of a live run of format {FORMAT}; begin without --resume")
    return LiveState(**content)
