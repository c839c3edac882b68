"""The bars of the released policy, from comparisons made by hand, and once from real episodes."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from agent.errors import InputError
from benchmarks import policy
from benchmarks.bars import goals
from benchmarks.policy import CLOSE_EPISODES, CLOSE_SEED, CLOSE_TRACED_EPISODES, EPISODES
from envs.dynamics.costs import TERM, TERMS
from envs.workloads.scenario import load_scenario, scenario_names
from training.comparison import Comparison
from training.config import FIRST_HELD_OUT_SEED
from training.contestants import Contestant
from training.episodes import Outcome
from training.evaluate import Exam
from training.play import Played
from training.sampling import BINS, Sampled
from training.worlds import provenance


def outcome(costs: list[float], lost_gb: float = 0.0, answered: int = 100) -> Outcome:
    terms = np.zeros((len(costs), len(TERMS)))
    terms[:, TERM["money"]] = costs
    terms[:, TERM["network_loss"]] = lost_gb
    played = Played(terms, np.ones(len(costs)), np.full(len(costs), 100))
    return Outcome(played, 100, answered, Sampled(np.zeros(BINS), 1000.0 * len(costs), 1.0, 1.0))


def comparison(scenario: str, model: Outcome, **others: Outcome) -> Comparison:
    contestants = [Contestant("policy", "released", "", baseline=False)]
    contestants += [Contestant(name, "heuristic", name, baseline=True) for name in others]
    return Comparison({"scenario": scenario}, tuple(contestants), {"policy": model, **others})


@pytest.fixture
def found() -> list[Comparison]:
    """Far below all in one scenario, level with linear in the other, where it loses much traffic."""
    clear = comparison("a", outcome([8.0, 8.1]), least_allocated=outcome([12.0, 12.1]), linear=outcome([10.0, 10.1]))
    level = comparison(
        "b",
        outcome([9.0, 10.5], lost_gb=20.0, answered=90),
        least_allocated=outcome([15.0, 16.0], lost_gb=10.0),
        linear=outcome([10.0, 10.0], lost_gb=20.0),
    )
    return [clear, level]


class Exams:
    """Outcomes of two exams, made by hand; remembers who played which."""

    def __init__(self, **by_seed: dict[str, Outcome]) -> None:
        self.by_seed = {int(seed.removeprefix("seed")): outcomes for seed, outcomes in by_seed.items()}
        self.played: list[tuple[int, int, set[str]]] = []

    def compare(self, contestants, world, exam, folder=None, sample=False):
        names = {each.name for each in contestants}
        self.played.append((exam.seed, exam.episodes, names))
        outcomes = {name: each for name, each in self.by_seed[exam.seed].items() if name in names}
        return Comparison({"scenario": world.name}, tuple(contestants), outcomes)


@pytest.fixture
def exams(monkeypatch) -> Exams:
    """`linear` looks level on the first exam, `far` is surely behind; on the second the model is surely ahead."""
    first = {"policy": outcome([9.0, 10.5]), "linear": outcome([10.0, 10.0]), "far": outcome([20.0, 21.4])}
    second = {"policy": outcome([9.0, 9.1]), "linear": outcome([10.0, 10.1])}
    reference = {"least_allocated": outcome([30.0, 31.4])}
    exams = Exams(seed1=first | reference, seed2=second | reference)
    monkeypatch.setattr(policy, "compare", exams.compare)
    return exams


LINE_UP = [Contestant("policy", "released", "", baseline=False)] + [
    Contestant(name, "heuristic", name, baseline=True) for name in ("linear", "far", "least_allocated")
]


def test_who_may_be_level_after_the_first_episodes_plays_on_others_and_those_count(exams):
    world = load_scenario("microservices")
    close = policy.contest(LINE_UP, world, Exam(episodes=2, seed=1), Exam(episodes=50, seed=2))
    everybody, staying = {"policy", "linear", "far", "least_allocated"}, {"policy", "linear", "least_allocated"}
    assert exams.played == [(1, 2, everybody), (2, 50, staying)]
    assert close.below_every_baseline, "surely ahead on the second exam"


def test_without_more_episodes_the_first_ones_count(exams):
    found = policy.contest(LINE_UP, load_scenario("microservices"), Exam(episodes=2, seed=1), None)
    assert [seed for seed, _, _ in exams.played] == [1]
    assert not found.below_every_baseline


def test_the_best_baseline_plays_on_even_if_it_is_surely_behind(exams):
    exams.by_seed[1]["policy"] = outcome([1.0, 1.1])
    policy.contest(LINE_UP, load_scenario("microservices"), Exam(episodes=2, seed=1), Exam(episodes=50, seed=2))
    assert exams.played[-1][2] == {"policy", "linear", "least_allocated"}


def test_close_calls_are_of_held_out_episodes_and_of_every_scenario():
    assert CLOSE_EPISODES.keys() == set(scenario_names())
    assert CLOSE_TRACED_EPISODES.keys() == {name for name in scenario_names() if not load_scenario(name).gpus.share}
    assert CLOSE_SEED > FIRST_HELD_OUT_SEED + EPISODES


def test_bars_count_scenarios_by_their_intervals(found):
    bar = policy._below_every(found)
    assert bar.value == 0.5
    assert bar.beside["not_below_b"] == "linear"
    assert "below linear" in bar.beside["a"]


def test_clearly_below_counts_means_of_ten_percent(found):
    bar = policy._clearly_below(found)
    assert (bar.value, bar.beside["scenarios"]) == (1, "a")


def test_harm_names_term_and_scenario(found):
    bar = policy._harm(found)
    assert bar.value == 1
    assert bar.beside["terms"].startswith("network_loss in b")


def test_the_smallest_share_of_answers_counts(found):
    assert policy._answers(found).value == pytest.approx(0.9)


def row(scenario: str, **changes: object) -> dict:
    facts = {"scenario": scenario, "best_cost": 10.0, "attainable_cost": 8.0, "attainable_ci95": 0.5, "most_nodes": 20}
    return {**facts, "seed": 0, "scenario_digest": "old", "generator_version": 0, "weights_digest": "", **changes}


@pytest.mark.parametrize("facts", [{"seed": 1_000_123}, provenance(load_scenario("microservices"), 0)])
def test_headroom_of_another_world_or_of_seen_episodes_is_compared_by_percentages(found, monkeypatch, facts):
    rows = {"microservices": row("microservices") | facts, "b": row("b", attainable_ci95=9.0)}
    monkeypatch.setattr(policy, "read_headroom", lambda: rows)
    one = Comparison({"scenario": "microservices"}, found[0].contestants, found[0].outcomes)
    bar = policy._headroom(found[0].contestants[0], [one, found[1]])
    below = 2.0 / 10.05  # of linear
    assert bar.value == pytest.approx(below / 0.2)
    assert list(bar.beside) == ["microservices", "headroom_not_measured"]


def test_headroom_of_this_world_is_compared_on_its_own_episodes(found, monkeypatch):
    seed = 1_000_123
    facts = provenance(load_scenario("microservices"), seed)
    asked = []

    def played(contestants, scenario, exam):
        asked.append((scenario.digest(), exam.seed, exam.episodes))
        return {"policy": outcome([9.0, 9.0])}

    monkeypatch.setattr(policy, "outcomes_of", played)
    rows = {"microservices": row("microservices") | facts | {"episodes": 20}}
    monkeypatch.setattr(policy, "read_headroom", lambda: rows)
    one = Comparison({"scenario": "microservices"}, found[0].contestants, found[0].outcomes)
    assert policy._headroom(found[0].contestants[0], [one]).value == pytest.approx(0.5)
    assert asked == [(facts["scenario_digest"], seed, 20)]


def test_without_measured_headroom_the_bar_is_not_met(found, monkeypatch):
    monkeypatch.setattr(policy, "read_headroom", dict)
    bar = policy._headroom(found[0].contestants[0], found)
    assert math.isnan(bar.value)
    assert not bar.met


def test_what_needs_traces_is_not_met_without_them(found):
    bars = [policy._traced([], [], None, quick=True), *policy._gpu_lists(None, quick=True)]
    assert [bar.met for bar in bars] == [False] * 3
    assert all(json.dumps(bar.as_json()) for bar in bars)


def test_gpu_lists_are_counted_where_the_model_is_there(monkeypatch, tmp_path):
    lists = {
        "default": {"model": 4.0, "best_fit": 7.0, "fgd": 4.5},
        "multigpu20": {"model": 6.0, "best_fit": 7.0, "fgd": 5.0},
    }
    monkeypatch.setattr(policy, "gpu_list_results", lambda folder, model, seeds: lists)
    monkeypatch.setattr(policy, "GPU_FOLDER", tmp_path)
    assert [bar.value for bar in policy._gpu_lists(tmp_path, quick=False)] == [1.0, 0.5]


def test_without_a_released_model_there_is_nothing_to_measure(monkeypatch, tmp_path):
    monkeypatch.setattr(policy, "DEFAULT_FOLDER", tmp_path / "none")
    with pytest.raises(InputError, match="no released model"):
        list(policy.run(quick=True, traces=None))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_quick_run_has_a_bar_for_every_goal(model_folder, monkeypatch, tmp_path):
    for module in ("benchmarks.policy", "training.contestants"):
        monkeypatch.setattr(f"{module}.DEFAULT_FOLDER", model_folder)
        monkeypatch.setattr(f"{module}.GPU_FOLDER", tmp_path / "none")
    monkeypatch.setattr(policy, "QUICK_SCENARIOS", ("deployments",))
    monkeypatch.setattr(policy, "QUICK_EPISODES", 2)
    monkeypatch.setattr(policy, "LARGE_NODES", 40)
    bars = {bar.bar: bar for bar in policy.run(quick=True, traces=None)}
    assert set(bars) == {name for name, goal in goals().items() if goal.benchmark == "policy"}
    assert bars["policy_answers_smallest_share"].value > 0.9
    assert 0 < bars["model_mb"].value < 1
    assert bars["forward_500_nodes_ms"].value > 0
