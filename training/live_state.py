"""A live run on disk: everything to go on from, in one file that is never half written.

It is written before a pod is bound, with that pod counted, and again when it is known what came of it. So whoever ends
the run, and however, no pod is bound that the next one does not count, and no fall is forgotten.

It is no checkpoint of ``pilotfish train``, on purpose: ``pilotfish export`` refuses it, so that no model leaves a live
run but through its examination.
"""

from __future__ import annotations

import pickle
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

from agent.errors import InputError
from training.live_ppo import LivePPO

FORMAT = "live-2"


@dataclass(frozen=True, slots=True)
class LiveState:
    config_digest: str
    released_sha256: str  # of the model that it began with
    policy: dict[str, Any]  # the network that learns, and its critic
    optimizer: dict[str, Any]
    scorer: dict[str, Any]  # the running mean of the network: what becomes the candidate
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


class Keeper:
    """Keeps one run, which may be the continuation of another."""

    def __init__(self, path: Path, released_sha256: str, before: LiveState | None) -> None:
        self.path, self.released_sha256 = path, released_sha256
        self._before = before
        self._began_s = time.monotonic()

    @property
    def minutes(self) -> float:
        earlier = self._before.minutes if self._before else 0.0
        return earlier + (time.monotonic() - self._began_s) / 60.0

    def keep(self, model: LivePPO) -> None:
        """Unless half an update is done: the state before it is on disk."""
        if not model.whole:
            return
        state = LiveState(
            config_digest=model.live_config.digest(),
            released_sha256=self.released_sha256,
            policy=model.policy.state_dict(),
            optimizer=model.policy.optimizer.state_dict(),
            scorer=model.scorer.state_dict(),
            guard=model.guard.state(),
            updates=model.updates,
            pods=model.num_timesteps,
            minutes=self.minutes,
        )
        save_state(state, self.path)

    def restore(self, model: LivePPO) -> None:
        before = self._before
        if before is None:
            return
        if (before.config_digest, before.released_sha256) != (model.live_config.digest(), self.released_sha256):
            raise InputError(f"{self.path}: begun with another configuration or released model; begin anew")
        model.policy.load_state_dict(before.policy)
        model.policy.optimizer.load_state_dict(before.optimizer)
        model.scorer.load_state_dict(before.scorer)
        model.guard.restore(before.guard)
        if model.guard.fallen:
            model.begin_anew()  # also where it was stopped between the fall and this
        model.updates, model.num_timesteps = before.updates, before.pods
