"""``pilotfish benchmark training``: how fast it learns, what the released model took, how soon a first one is there.

The first useful model is learned from nothing: no linear scorer to start from, only the heuristics to be ahead of.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from agent.heuristics.registry import SCORERS
from benchmarks.bars import Bar, measured
from models.manifest import RELEASED, read_model
from training.config import NONE, TrainConfig, load_config
from training.ppo import EpisodicPPO, TrainingWorld
from training.train import first_rule, train
from training.watching import Metrics

TWENTY_NODES = ("microservices", "bursts")
GROUPS = 16
UPDATES = 4
THREADS = 2
LONGEST_MINUTES = 10.0
QUICK_MINUTES = 0.2
MINUTES_PER_HOUR = 60.0
USD_PER_HOUR = 50.0  # about what these worlds cost: only scales the advantages


def run(quick: bool, traces: Path | None) -> Iterator[Bar]:
    """Quick: one update, and a few seconds from nothing."""
    yield _throughput(1 if quick else UPDATES)
    yield _default_model()
    yield _first_useful(quick)


def _throughput(updates: int) -> Bar:
    """Decisions a second over whole updates, after one that compiles and warms up."""
    config = load_config("default")
    content = config.model_dump() | {"threads": THREADS}
    content["worlds"] = [{"scenario": name, "groups": GROUPS} for name in TWENTY_NODES]
    config = TrainConfig.model_validate(content)
    worlds = [TrainingWorld(scenario, GROUPS, USD_PER_HOUR) for scenario in config.scenarios()]
    model = EpisodicPPO(worlds, config, first_rule(config.network.prior))
    model.learn(1)
    each = model.num_timesteps
    began_s = time.perf_counter()
    model.learn(each * (updates - 1) + 1, reset_num_timesteps=False)
    seconds = time.perf_counter() - began_s
    return measured(
        "decisions_per_s_20_nodes",
        (model.num_timesteps - each) / seconds,
        epochs=config.learning.epochs,
        threads=THREADS,
        decisions_an_update=each,
        learned_from=f"those with at least {config.credit.least:g} of the usual at stake",
    )


def _default_model() -> Bar:
    """As the released model's manifest says."""
    manifest, _ = read_model(RELEASED / "default")
    facts = manifest.training
    return measured("default_model_hours", facts.minutes / MINUTES_PER_HOUR, decisions=facts.decisions)


def _first_useful(quick: bool) -> Bar:
    """Minutes until the mean relative cost is below that of the best untuned heuristic of each scenario."""
    looks: list[Metrics] = []
    config = from_nothing(load_config("default"))
    with TemporaryDirectory() as folder:
        train(config, Path(folder), minutes=QUICK_MINUTES if quick else LONGEST_MINUTES, report=looks.append)
    ahead = next((look for look in looks if look.relative_cost < 1.0), None)
    last = looks[-1] if ahead is None else ahead
    beside = {name: round(cost, 3) for name, cost in last.by_scenario.items()}
    return measured("first_useful_model_minutes", math.inf if ahead is None else ahead.minutes, **beside)


def from_nothing(config: TrainConfig) -> TrainConfig:
    """The same run without a linear scorer to begin with, watched closely, against every heuristic."""
    content = config.without_heads().model_dump()
    content["network"] |= {"prior": NONE}
    content["watching"] |= {"every": 4, "episodes": 24, "baselines": list(SCORERS)}
    content["threads"] = THREADS
    return TrainConfig.model_validate(content)
