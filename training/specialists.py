"""Where a head of one world's own is cheaper than what was learned for all, it takes over there.

Each world that asks for it gets a head by training.head_search. Then both play the same new episodes, the one that is
cheaper stays, and a gate is taught to tell those worlds from all others by the pod and the candidates
alone. It remains one network.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import active_children, get_context

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import torch
from torch import Tensor, nn

from agent.cluster import BoolArray, FloatArray
from agent.features import NODE_FEATURES, FeatureArray
from envs.batch_env import BatchEnv
from envs.workloads.tape import Tape
from models.network import NodeScorer
from training.head_search import Search, costs_of_heads, search_head
from training.play import choose
from training.ppo import TrainingWorld, make_stack
from training.statistics import paired_difference
from training.watching import NetworkScorer

SHOWN_SEED, SHOWN_TAPES = 850_000, 64  # what the gate is taught with
COMPARED_SEED = 860_000  # who is cheaper
LEARNED = 0  # number of the head that stands for all that was learned
LOOKED_AT = 0.1  # of the decisions of the tapes that are shown
STEPS, RATE, BATCH = 1500, 3e-3, 64
SURE = 3.0  # times as sure as it was taught: half of two orders agrees with neither

Told = Callable[[str], None]  # what is going on, for people


@dataclass(frozen=True, slots=True)
class Rows:
    """Decisions of one world as the network sees them."""

    nodes: Tensor
    pod: Tensor
    mask: Tensor

    def __len__(self) -> int:
        return len(self.pod)


def with_specialists(
    network: NodeScorer,
    worlds: Sequence[TrainingWorld],
    seed: int,
    search: Search | None = None,
    told: Told = lambda text: None,
) -> NodeScorer:
    """The network with the heads that are cheaper in their own world, and a gate that knows these worlds."""
    worlds = [world.of_its_head() for world in worlds]
    heads = own_heads(network, worlds, search or Search(), told)
    found = [head for head in heads if head is not None]
    if not found:
        return network
    advised = joined(network, found)
    numbers = np.cumsum([head is not None for head in heads])
    taught = [LEARNED if head is None else int(number) for head, number in zip(heads, numbers, strict=True)]
    shown = [
        show(only(advised, number), make_stack(world, SHOWN_SEED, range(SHOWN_TAPES)), seed)
        for number, world in zip(taught, worlds, strict=True)
    ]
    teach(advised, shown, taught, seed)
    return advised


def own_heads(
    network: NodeScorer, worlds: Sequence[TrainingWorld], search: Search, told: Told
) -> list[FloatArray | None]:
    """Corrections of the network's head, one for each world; None where it stays as it is.

    Each is looked for in a process of its own, as many at once as there are cores: threads would wait for each
    other's Python. Those that start from another world's come after it.
    """
    found: dict[str, Specialist] = {}
    asking = [world for world in worlds if world.own_head_decisions]
    with _processes() as pool:
        for some in (
            [world for world in asking if not world.head_from],
            [world for world in asking if world.head_from],
        ):
            tasks = {}
            for world in some:
                start = found[world.head_from].head if world.head_from else None
                task = pool.submit(_called, cloudpickle.dumps(partial(specialist, network, world, search, start)))
                tasks[task] = world.scenario.name
            for task in as_completed(tasks):
                told(f"{tasks[task]}: {task.result()}")
                found[tasks[task]] = task.result()
    heads = {name: each.head for name, each in found.items() if each.percent < 0}
    return [heads.get(world.scenario.name) for world in worlds]


@contextmanager
def _processes() -> Iterator[ProcessPoolExecutor]:
    """As many as there are cores; after Ctrl-C none of them goes on with a search of many minutes."""
    others = set(active_children())
    pool = ProcessPoolExecutor(os.cpu_count(), get_context("spawn"))
    try:
        yield pool
    except BaseException:
        for process in set(active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _called(search: bytes) -> Specialist:
    torch.set_num_threads(1)
    found: Specialist = cloudpickle.loads(search)()
    return found


@dataclass(frozen=True, slots=True)
class Specialist:
    head: FloatArray  # the correction
    percent: float  # what it costs more than what was learned
    half_width: float  # of the 95 % interval

    def __str__(self) -> str:
        return f"a head of its own costs {self.percent:+.2f} ± {self.half_width:.2f} % against what was learned"


def specialist(
    network: NodeScorer, world: TrainingWorld, search: Search, start: FloatArray | None = None
) -> Specialist:
    """The head for this world, and what it costs on new tapes."""
    head = search_head(network, world, world.own_head_decisions, search, start)
    tape = make_stack(world, COMPARED_SEED, range(search.compared))
    (before, after), _ = costs_of_heads(network, np.array([np.zeros_like(head), head]), tape)
    mean, half_width = paired_difference(after, before)
    return Specialist(head, 100.0 * mean / before.mean(), 100.0 * half_width / before.mean())


@torch.no_grad()
def joined(network: NodeScorer, corrections: Sequence[FloatArray]) -> NodeScorer:
    """The same network with these heads beside its own, and a gate that does not know them yet."""
    own_rule, own_score = network.rule.weight[:1], network.score.weight[:1]
    more = torch.from_numpy(np.stack(corrections).astype(np.float32))
    rules = torch.cat([own_rule, own_rule + more[:, : len(NODE_FEATURES)] / network.sharpness])
    advised = NodeScorer(network.hidden, rules.numpy())
    kept = {
        name: weights
        for name, weights in network.state_dict().items()
        if not name.startswith(("rule.", "score.", "gate."))
    }
    scores = torch.cat([own_score, own_score + more[:, len(NODE_FEATURES) :]])
    advised.load_state_dict(advised.state_dict() | kept | {"score.weight": scores})
    return advised


@torch.no_grad()
def only(network: NodeScorer, head: int) -> NetworkScorer:
    """The network as if the gate knew nothing but this head."""
    alone = NodeScorer(network.hidden, network.rule.weight[head : head + 1].numpy())
    kept = {name: weights for name, weights in network.state_dict().items() if not name.startswith("gate.")}
    kept |= {name: kept[name][head : head + 1] for name in ("rule.weight", "score.weight")}
    alone.load_state_dict(alone.state_dict() | kept)
    return NetworkScorer(alone)


def show(scorer: NetworkScorer, tape: Tape, seed: int) -> Rows:
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


def teach(scorer: NodeScorer, shown: Sequence[Rows], heads: Sequence[int], seed: int) -> None:
    """The gate alone: which head decides in each of the worlds that are shown."""
    with torch.no_grad():
        seen = [scorer.together(rows.nodes, rows.pod, rows.mask) for rows in shown]
    drawn = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(scorer.gate.parameters(), lr=RATE)
    for _ in range(STEPS):
        losses = []
        for head, rows in zip(heads, seen, strict=True):
            some = rows[torch.randint(len(rows), (BATCH,), generator=drawn)]
            losses.append(nn.functional.cross_entropy(scorer.gate(some), torch.full((BATCH,), head)))
        optimizer.zero_grad()
        torch.stack(losses).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    with torch.no_grad():
        scorer.gate.weight *= SURE
