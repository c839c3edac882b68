"""What learning starts from: tuned linear scorers, and a gate that has been taught which of them fits.

No single set of weights fits every world, and a scorer tuned for one world is better there than one for all. So the
network may begin with the vector of each of its scenarios (``prior: own``). Played in its own world, each shows what
that looks like, and the gate learns to tell the worlds apart by the pod and the candidates alone. Learning goes on
from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from agent.cluster import BoolArray, FloatArray
from agent.features import FeatureArray
from agent.linear import LinearScorer
from envs.batch_env import BatchEnv
from envs.workloads.tape import Tape
from models.linear import MIX, load_linear, vector_names
from models.network import NodeScorer, usable

NONE, OWN = "none", "own"
STEPS, RATE, BATCH = 300, 3e-3, 128
LOOKED_AT = 0.1  # of the decisions of the tapes that are shown


@dataclass(frozen=True, slots=True)
class Rows:
    """Decisions of one world as the network sees them."""

    nodes: Tensor
    pod: Tensor
    mask: Tensor

    def __len__(self) -> int:
        return len(self.pod)


def first_priors(prior: str, scenarios: Sequence[str]) -> list[LinearScorer]:
    """The scorers that a configuration names."""
    if prior == NONE:
        return []
    if prior != OWN:
        return [load_linear(prior)]
    known = vector_names()
    return [load_linear(name if name in known else MIX) for name in scenarios]


def show(scorer: LinearScorer, tape: Tape, seed: int) -> Rows:
    """Play the tapes by this scorer and keep some of what it was asked."""
    rng = np.random.default_rng(seed)
    weights = scorer.weights.astype(np.float32)
    env = BatchEnv(tape, np.arange(len(tape.horizon_s)), threads=1)
    encoding = env.new_encoding()
    kept: list[tuple[FeatureArray, FeatureArray, BoolArray]] = []
    while not env.done.all():
        env.encode(encoding)
        candidates = env.candidates()
        some = ~env.done & candidates.any(axis=-1) & (rng.random(env.clusters) < LOOKED_AT)
        kept.append((encoding.nodes[some].copy(), encoding.pod[some].copy(), candidates[some].copy()))
        allowed = usable(torch.from_numpy(encoding.nodes), torch.from_numpy(candidates)).numpy()
        env.step(np.argmax(np.where(allowed, encoding.nodes @ weights, -np.inf), axis=-1))
    return Rows(*(torch.from_numpy(np.concatenate(column)) for column in zip(*kept, strict=True)))


def alike(scorers: Sequence[LinearScorer], shown: Sequence[Rows]) -> FloatArray:
    """Their weights, (scorers, features), made as sharp as the scorer of the mix is: only the order ever counted."""
    mix = load_linear(MIX).weights
    pairs = zip(scorers, shown, strict=True)
    return np.stack([each.weights * _spread(mix, rows) / _spread(each.weights, rows) for each, rows in pairs])


def teach(scorer: NodeScorer, shown: Sequence[Rows], seed: int) -> None:
    """The gate, and the layers that it looks through."""
    drawn = torch.Generator().manual_seed(seed)
    layers = (scorer.from_node, scorer.from_pod, scorer.gate)
    optimizer = torch.optim.Adam([weights for layer in layers for weights in layer.parameters()], lr=RATE)
    for _ in range(STEPS):
        losses = []
        for world, rows in enumerate(shown):
            some = torch.randint(len(rows), (BATCH,), generator=drawn)
            rules = scorer.embed(rows.nodes[some], rows.pod[some], rows.mask[some]).rules
            losses.append(nn.functional.nll_loss(torch.log(rules + 1e-9), torch.full((BATCH,), world)))
        optimizer.zero_grad()
        torch.stack(losses).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def _spread(weights: FloatArray, rows: Rows) -> float:
    """How far the scores of a decision's candidates usually lie apart."""
    scores = np.where(rows.mask.numpy(), rows.nodes.numpy() @ weights, np.nan)
    return float(np.nanmean(np.nanstd(scores, axis=-1)))
