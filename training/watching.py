"""How a training run is doing: the policy against the baselines on the same arrivals, while it learns."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from rich.table import Table

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.features import Encoding, encode
from agent.heuristics.registry import scorer_by_name
from agent.scorer import Scorer
from envs.workloads.tape import Tape
from models.network import NodeScorer
from training.config import TrainConfig
from training.play import play

LINEAR = "linear"
REFERENCE = "expected_utilisation"


@dataclass(frozen=True, slots=True)
class NetworkScorer:
    """A network as a scorer, before it is exported."""

    network: NodeScorer
    name: str = "policy"
    needs: tuple[str, ...] = ("cpu", "memory", "network")

    def rate(self, encoding: Encoding, candidates: BoolArray) -> FloatArray:
        with torch.no_grad():
            arrays = (encoding.nodes, encoding.pod, candidates)
            scores: FloatArray = self.network(*map(torch.from_numpy, arrays)).double().numpy()
        return scores

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        one = encode(state, demand, candidates)
        return np.asarray(self.rate(Encoding(one.nodes[None], one.pod[None]), candidates[None])[0])


@dataclass(frozen=True, slots=True)
class Metrics:
    """One look at a run. Relative costs are over the best baseline's on the same arrivals: below 1 is ahead."""

    decisions: int
    minutes: float
    relative_cost: float  # mean over the scenarios
    by_scenario: dict[str, float]
    is_best: bool


@dataclass(slots=True)
class Watch:
    """The scenarios' tapes and what the baselines cost on them, by scenario and name, in dollars an hour."""

    tapes: dict[str, Tape]
    baselines: dict[str, dict[str, float]]
    reference: dict[str, float]  # of the heuristic whose cost is the scale of a scenario
    best: float = math.inf
    since_best: int = 0
    history: list[Metrics] = field(default_factory=list)

    def look(self, network: NodeScorer, decisions: int, minutes: float) -> Metrics:
        scorer = NetworkScorer(network)
        costs = {name: mean_cost(scorer, tape) for name, tape in self.tapes.items()}
        relative = {name: cost / min(self.baselines[name].values()) for name, cost in costs.items()}
        mean = float(np.mean(list(relative.values())))
        is_best = mean < self.best
        self.best, self.since_best = (mean, 0) if is_best else (self.best, self.since_best + 1)
        self.history.append(Metrics(decisions, minutes, mean, relative, is_best))
        return self.history[-1]

    def table(self, state: str) -> Table:
        """What is shown while it trains."""
        table = Table("scenario", "best baseline", "USD/h", "policy USD/h", "relative", "lowest", title=state)
        for name, costs in self.baselines.items():
            cheapest = min(costs, key=lambda key: costs[key])
            seen = [metrics.by_scenario[name] for metrics in self.history]
            now = (f"{costs[cheapest] * seen[-1]:.2f}", f"{seen[-1]:.3f}", f"{min(seen):.3f}") if seen else ("",) * 3
            table.add_row(name, cheapest, f"{costs[cheapest]:.2f}", *now)
        mean = f"{self.history[-1].relative_cost:.4f}" if self.history else ""
        table.add_row("mean", "", "", "", mean, f"{self.best:.4f}" if self.history else "")
        return table


def watch(
    config: TrainConfig, tapes: dict[str, Tape], linear: Scorer | None, told: Callable[[str], None] = lambda text: None
) -> Watch:
    """Play the baselines once; they are the same for the whole run."""
    scorers = {name: scorer_by_name(name) for name in (REFERENCE, *config.watching.baselines)}
    scorers |= {} if linear is None else {LINEAR: linear}
    baselines: dict[str, dict[str, float]] = {}
    for scenario, tape in tapes.items():
        told(f"baselines in {scenario}")
        baselines[scenario] = {name: mean_cost(scorer, tape) for name, scorer in scorers.items()}
    reference = {scenario: costs[REFERENCE] for scenario, costs in baselines.items()}
    return Watch(tapes, baselines, reference)


def mean_cost(scorer: Scorer, tape: Tape) -> float:
    return float(play(scorer, tape).cost_per_hour.mean())
