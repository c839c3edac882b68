"""Where a linear scorer of one world is cheaper than what was learned for all, it takes over there.

Learning judges a decision by an account that is good, not perfect (docs/training.md); near the best weights of a world
its errors outweigh what is left to gain, while the cross-entropy method of training.cem asks for the true cost alone.
So in the end both play the same episodes of each world, the one that is surely cheaper stays, and a gate
is taught to tell those worlds from all others by the pod and the candidates alone. It remains one network.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from agent.cluster import BoolArray, FloatArray
from agent.features import FeatureArray
from agent.linear import LinearScorer
from agent.scorer import FeatureScorer
from envs.batch_env import BatchEnv
from envs.workloads.tape import Tape
from models.linear import load_linear, vector_names
from models.network import NodeScorer
from training.play import choose, play
from training.ppo import TrainingWorld, make_stack
from training.statistics import paired_difference
from training.watching import NetworkScorer

logger = logging.getLogger(__name__)

SHOWN_SEED, SHOWN_TAPES = 850_000, 64  # what the gate is taught with
COMPARED_SEED, COMPARED_TAPES = 860_000, 128  # who is cheaper
LEARNED = 0  # number of the rule that stands for all that was learned
LOOKED_AT = 0.1  # of the decisions of the tapes that are shown
STEPS, RATE, BATCH = 1500, 3e-3, 64
SURE = 3.0  # times as sure as it was taught: half of two orders agrees with neither


@dataclass(frozen=True, slots=True)
class Rows:
    """Decisions of one world as the network sees them."""

    nodes: Tensor
    pod: Tensor
    mask: Tensor

    def __len__(self) -> int:
        return len(self.pod)


def with_specialists(network: NodeScorer, worlds: Sequence[TrainingWorld], seed: int) -> NodeScorer:
    """The network with the linear scorers that are cheaper in their own world, and a gate that knows these worlds."""
    deciding = [specialist(network, world) for world in worlds]
    if not any(deciding):
        return network
    shown = [
        show(scorer or NetworkScorer(network), make_stack(world, SHOWN_SEED, range(SHOWN_TAPES)), seed)
        for scorer, world in zip(deciding, worlds, strict=True)
    ]
    taking_over = [(scorer, rows) for scorer, rows in zip(deciding, shown, strict=True) if scorer is not None]
    advised = joined(network, [as_sharp(scorer.weights, network, rows) for scorer, rows in taking_over])
    numbers = np.cumsum([scorer is not None for scorer in deciding])
    rules = [int(number) if scorer else LEARNED for scorer, number in zip(deciding, numbers, strict=True)]
    teach(advised, shown, rules, seed)
    return advised


def specialist(network: NodeScorer, world: TrainingWorld) -> LinearScorer | None:
    """The linear scorer of this world, if it is cheaper there than the network by more than the doubt about it."""
    name = world.scenario.name
    if name not in vector_names():
        return None
    own, tape = load_linear(name), make_stack(world, COMPARED_SEED, range(COMPARED_TAPES))
    mean, half_width = paired_difference(*(play(each, tape).cost_per_hour for each in (own, NetworkScorer(network))))
    logger.info("%s: its own linear scorer costs %.3g ± %.3g less than what was learned", name, -mean, half_width)
    return own if mean < -half_width else None


def joined(network: NodeScorer, rules: Sequence[FloatArray]) -> NodeScorer:
    """The same network with these rules beside its own, and a gate that does not know them yet."""
    learned = network.rule.weight.detach().double().numpy()
    advised = NodeScorer(network.hidden, np.concatenate([learned[:1], np.stack(rules)]))
    kept = {name: weights for name, weights in network.state_dict().items() if not name.startswith(("rule.", "gate."))}
    advised.load_state_dict(advised.state_dict() | kept)
    return advised


def show(scorer: FeatureScorer, tape: Tape, seed: int) -> Rows:
    """Play the tapes by this scorer and keep some of what it was asked."""
    rng = np.random.default_rng(seed)
    env = BatchEnv(tape, np.arange(len(tape.horizon_s)), threads=1)
    kept: list[tuple[FeatureArray, FeatureArray, BoolArray]] = []
    while not env.done.all():
        candidates, encoding = env.candidates(), env.encode()
        some = ~env.done & candidates.any(axis=-1) & (rng.random(env.clusters) < LOOKED_AT)
        kept.append((encoding.nodes[some].copy(), encoding.pod[some].copy(), candidates[some].copy()))
        env.step(choose(scorer, env, rng))
    return Rows(*(torch.from_numpy(np.concatenate(column)) for column in zip(*kept, strict=True)))


def as_sharp(weights: FloatArray, network: NodeScorer, rows: Rows) -> FloatArray:
    """The rule with as much between the nodes as the network has: only their order ever counted."""
    with torch.no_grad():
        learned = network(rows.nodes, rows.pod, rows.mask).numpy()
        sharpness = float(network.sharpness)
    return weights * _spread(learned, rows) / _spread(rows.nodes.numpy() @ weights, rows) / sharpness


def teach(scorer: NodeScorer, shown: Sequence[Rows], rules: Sequence[int], seed: int) -> None:
    """The gate alone: which rule decides in each of the worlds that are shown."""
    with torch.no_grad():
        seen = [scorer.together(rows.nodes, rows.pod, rows.mask) for rows in shown]
    drawn = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(scorer.gate.parameters(), lr=RATE)
    for _ in range(STEPS):
        losses = []
        for rule, rows in zip(rules, seen, strict=True):
            some = rows[torch.randint(len(rows), (BATCH,), generator=drawn)]
            losses.append(nn.functional.cross_entropy(scorer.gate(some), torch.full((BATCH,), rule)))
        optimizer.zero_grad()
        torch.stack(losses).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    with torch.no_grad():
        scorer.gate.weight *= SURE


def _spread(scores: FloatArray, rows: Rows) -> float:
    """How far the scores of a decision's candidates usually lie apart."""
    return float(np.nanmean(np.nanstd(np.where(rows.mask.numpy(), scores, np.nan), axis=-1)))
