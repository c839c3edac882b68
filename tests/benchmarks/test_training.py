"""The bars of training: what is measured, on runs that take seconds."""

from __future__ import annotations

import math

import pytest

from agent.heuristics.registry import SCORERS
from benchmarks import training
from models.manifest import RELEASED, read_model
from training.config import load_config
from training.watching import Metrics


def looked(minutes: float, cost: float) -> Metrics:
    return Metrics(1, minutes, cost, {"edge": cost}, is_best=True)


def test_the_first_useful_model_is_learned_from_nothing_and_judged_by_every_heuristic() -> None:
    config = training.from_nothing(load_config("default"))
    assert config.network.prior == "none"
    assert config.watching.baselines == list(SCORERS)
    headless = [world.model_copy(update={"own_head": 0}) for world in load_config("default").worlds]
    assert config.worlds == headless  # the first useful model is there long before any search for heads


@pytest.mark.parametrize(
    ("looks", "minutes"),
    [
        ([looked(1.0, 1.2), looked(2.0, 0.99), looked(3.0, 0.9)], 2.0),
        ([looked(1.0, 1.2), looked(2.0, 1.0)], math.inf),
    ],
)
def test_it_is_there_when_the_mean_cost_is_below_the_best_heuristic_s(looks, minutes, monkeypatch) -> None:
    def learn(config, folder, *, minutes, report):
        for look in looks:
            report(look)

    monkeypatch.setattr(training, "train", learn)
    assert training._first_useful(quick=True).value == minutes


def test_the_released_model_says_how_long_it_took() -> None:
    minutes = read_model(RELEASED / "default")[0].training.minutes
    assert training._default_model().value == pytest.approx(minutes / 60.0)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_throughput_counts_whole_updates(monkeypatch) -> None:
    monkeypatch.setattr(training, "GROUPS", 1)
    monkeypatch.setattr(training, "TWENTY_NODES", ("microservices",))
    bar = training._throughput(1)
    assert bar.value > 50
    assert bar.beside["decisions_an_update"] > 100
