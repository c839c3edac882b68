"""``pilotfish evaluate`` as a user meets it, and the comparison behind it."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml

import pilotfish
from agent.heuristics.registry import SCORERS
from envs.dynamics.costs import TERM, TERMS
from envs.rewards import DIGEST, WEIGHTS
from envs.workloads.scenario import load_scenario
from training.comparison import HARM_TERMS, Comparison, difference, harms
from training.config import FIRST_HELD_OUT_SEED
from training.contestants import Contestant
from training.episodes import Outcome, joined, pieces_of, play_piece
from training.evaluate import Exam, compare, line_up
from training.evaluation_tables import verdict
from training.play import Played
from training.sampling import BINS, Sampled
from training.thesis_agents import FOLDER, SCENARIOS, path_of

pytestmark = pytest.mark.timeout(400)  # the first to run waits until numba has compiled the simulator

CHEAP = Contestant("most_allocated", "heuristic", "most_allocated", baseline=True)
FAIR = Contestant("least_allocated", "heuristic", "least_allocated", baseline=True)
RANDOM = Contestant("random", "heuristic", "random", baseline=True)


@pytest.fixture(scope="module")
def scenario(small, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("worlds") / "small.yaml"
    path.write_text(yaml.safe_dump(small.model_dump(mode="json")))
    return str(path)


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs the command; gives its exit code, and what it wrote to stdout and stderr."""

    def run(*arguments: object) -> tuple[int | str | None, str, str]:
        monkeypatch.setattr(sys, "argv", ["pilotfish", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            pilotfish.main()
        return end.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def rows(command):
    def run(*arguments: object) -> list[dict]:
        code, out, err = command("evaluate", *arguments, "--json")
        assert code == 0, err
        return [json.loads(line) for line in out.splitlines()]

    return run


@pytest.fixture
def refused(command):
    """The one line that a user sees."""

    def run(*arguments: object) -> str:
        code, out, err = command("evaluate", *arguments)
        assert (code, out) == (2, "")
        assert re.fullmatch(r"pilotfish: .+\n", err)
        return err

    return run


# --- the command


def test_json_has_one_object_for_each_scenario_with_every_baseline(rows, scenario):
    found = rows("least_allocated", "--scenario", scenario, "--scenario", "deployments", "--episodes", 2)
    assert [row["scenario"] for row in found] == ["small", "deployments"]
    for row in found:
        assert {*SCORERS, "linear"} <= set(row["policies"])
        assert (row["model"], row["episodes"], row["seed"]) == ("least_allocated", 2, FIRST_HELD_OUT_SEED)
        assert row["weights_digest"] == DIGEST
    assert found[1]["scenario_digest"] == load_scenario("deployments").digest()
    others = {name: policy["baseline"] for name, policy in found[1]["policies"].items() if name not in SCORERS}
    assert others == {"linear": True, "linear_own": False, "thesis_document": True, "thesis_dqn": True}


def test_every_policy_has_its_terms_in_dollars_and_the_paired_difference(rows, scenario):
    (row,) = rows("least_allocated", "--scenario", scenario, "--episodes", 3)
    for name, policy in row["policies"].items():
        assert list(policy["usd_per_hour"]) == list(TERMS)
        assert sum(policy["usd_per_hour"].values()) == pytest.approx(policy["cost"]["mean"])
        if name != "least_allocated":
            means = row["policies"]["least_allocated"]["cost"]["mean"] - policy["cost"]["mean"]
            assert policy["model_minus_this"]["mean"] == pytest.approx(means)
    assert "model_minus_this" not in row["policies"]["least_allocated"]
    costs = [policy["cost"]["mean"] for policy in row["policies"].values()]
    assert costs == sorted(costs)


def test_a_folder_is_played_as_served_and_named_by_its_digest(rows, scenario, model_folder):
    (row,) = rows(model_folder, "--scenario", scenario, "--episodes", 2)
    name = model_folder.name
    assert row["model"] == name
    assert len(row["models"][name]) == 64
    assert 0.9 < row["answered_share"] <= 1.0
    assert row["policies"][name]["cost"]["mean"] > 0


def test_the_same_command_gives_the_same_result(rows, scenario):
    options = ("random", "--scenario", scenario, "--episodes", 2)
    assert rows(*options) == rows(*options)
    assert rows(*options) != rows(*options, "--seed", 7)


def test_one_episode_has_no_interval_and_nothing_is_nan(command, scenario):
    for options in (["--json"], []):
        code, out, _ = command("evaluate", "--scenario", scenario, "--episodes", 1, *options)
        assert code == 0
        assert "nan" not in out.lower()


def test_tables_have_every_policy_every_term_and_a_verdict(command, scenario):
    code, out, _ = command("evaluate", "neutral", "--scenario", scenario, "--episodes", 2)
    assert code == 0
    assert all(name in out for name in SCORERS)
    assert re.search(r"neutral (does not beat|is not surely below|is below)", out)


def test_traces_are_named_in_the_result(rows, scenario, tmp_path):
    header = "ts,service,cpu_m,cpu_pct_of_limit,mem_mib,mem_pct_of_limit,rx_Bps,tx_Bps,"
    header += "server_p90_s,server_p99_s,ops,node_cpu_pct,node_mem_pct\n"
    path = tmp_path / "k8s_nezha" / "shop_pods.csv"
    path.parent.mkdir()
    lines = [f"{1000 + 60 * k},cart,3,10,30,25,1000,1000,,,{1 if k % 3 else 10},12,46\n" for k in range(30)]
    path.write_text(header + "".join(lines))
    (replayed,) = rows("neutral", "--scenario", scenario, "--episodes", 2, "--traces", tmp_path)
    (synthetic,) = rows("neutral", "--scenario", scenario, "--episodes", 2)
    assert list(replayed["traces"]["files"]) == ["k8s_nezha/shop_pods.csv"]
    assert replayed["policies"] != synthetic["policies"]


# --- bad input


def test_an_unknown_model_names_the_choices(refused):
    said = refused("oracle")
    assert "no folder of a model" in said
    assert ", ".join(SCORERS) in said


def test_a_folder_that_is_no_model_is_refused_before_any_work(refused, tmp_path, monkeypatch):
    monkeypatch.setattr("training.evaluate.play_all", None)
    assert "manifest.json" in refused(tmp_path)


def test_the_same_model_twice_is_refused(refused):
    assert "two models of one name" in refused("ma", "MA")


def test_an_unknown_scenario_names_the_choices(refused):
    assert "microservices" in refused("--scenario", "nowhere")


@pytest.mark.parametrize("name", ["report.pdf", "report", "no-such-folder/report.html", "folder.html"])
def test_a_report_that_cannot_be_written_is_refused_before_any_work(refused, tmp_path, monkeypatch, name):
    monkeypatch.setattr("training.evaluate.play_all", None)
    (tmp_path / "folder.html").mkdir()
    assert "--report" in refused("--report", tmp_path / name)


# --- pairs


def test_all_contestants_meet_the_same_episodes(small):
    found = compare([FAIR, CHEAP], small, Exam(episodes=3))
    one, other = (found.outcomes[name].played for name in ("least_allocated", "most_allocated"))
    assert one.decisions.tolist() == other.decisions.tolist()
    assert not np.array_equal(one.terms, other.terms)


def test_pieces_cover_every_episode_once_whatever_their_size(small, monkeypatch):
    whole = joined([play_piece(piece) for piece in pieces_of([FAIR], small, 5, 5)])
    monkeypatch.setattr("training.episodes.NODE_ROWS", 8)
    pieces = pieces_of([FAIR], small, 5, 5)
    assert [(piece.first, piece.count) for piece in pieces] == [(0, 4), (4, 1)]
    parts = joined([play_piece(piece) for piece in pieces])
    assert parts.played.decisions.tolist() == whole.played.decisions.tolist()
    np.testing.assert_allclose(parts.played.hours, whole.played.hours)


def test_a_piece_gives_the_same_numbers_in_any_order(small):
    one, other = pieces_of([RANDOM, FAIR], small, 5, 2)
    first = play_piece(one)
    play_piece(other)
    np.testing.assert_array_equal(play_piece(one).played.terms, first.played.terms)


def test_the_model_comes_first_and_is_not_its_own_baseline():
    contestants = line_up(["least_allocated"])
    assert contestants[0].name == "least_allocated"
    names = [each.name for each in contestants]
    assert len(names) == len(set(names))
    assert not contestants[0].baseline


def test_the_agents_of_the_thesis_play_where_they_were_trained():
    agents = [each for each in line_up([]) if each.kind == "thesis"]
    assert [each.name for each in agents] == ["thesis_document", "thesis_dqn"]
    for each in agents:
        assert tuple(name for name in SCENARIOS if each.plays(name)) == SCENARIOS
        assert not each.plays("small")


@pytest.mark.parametrize("gone", ["weights.json", "dqn-edge.npz", "document-deployments.npz"])
def test_a_released_baseline_that_is_missing_is_refused_before_any_work(refused, tmp_path, monkeypatch, gone):
    """Whatever the scenario: without it the model would only look better."""
    monkeypatch.setattr("training.evaluate.play_all", None)
    if gone == "weights.json":
        monkeypatch.setattr("training.contestants.LINEAR_WEIGHTS", tmp_path / gone)
    else:
        agents = shutil.copytree(FOLDER, tmp_path / "thesis")
        (agents / gone).unlink()
        monkeypatch.setattr("training.contestants.path_of", partial(path_of, folder=agents))
    assert f"{gone}: no such file; it comes with Pilotfish" in refused("neutral", "--scenario", "deployments")


def outcome(costs: list[float], **terms: float) -> Outcome:
    """Episodes of one hour that cost so much money, and harm terms."""
    sums = np.zeros((len(costs), len(TERMS)))
    sums[:, TERM["money"]] = costs
    for name, value in terms.items():
        sums[:, TERM[name]] = value
    played = Played(sums, np.ones(len(costs)), np.full(len(costs), 100))
    return Outcome(played, 0, 0, Sampled(np.zeros(BINS), 1000.0 * len(costs), 500.0 * len(costs), 80.0 * len(costs)))


def comparison(**costs: list[float]) -> Comparison:
    contestants = tuple(Contestant(name, "heuristic", name, name.startswith("b")) for name in costs)
    return Comparison({"scenario": "s"}, contestants, {name: outcome(cost) for name, cost in costs.items()})


def test_difference_is_model_minus_other_over_pairs():
    paired = difference(np.array([1.0, 2.0, 6.0]), np.array([2.0, 4.0, 6.0]))
    assert paired.mean == pytest.approx(-1.0)
    assert paired.percent == pytest.approx(-25.0)
    assert paired.half_width_95 == pytest.approx(1.959964 / np.sqrt(3))
    assert not paired.model_is_cheaper
    assert difference(np.array([1.0, 1.1]), np.array([2.0, 2.2])).model_is_cheaper


def test_only_baselines_must_be_beaten():
    found = comparison(model=[1.0, 1.1], bad=[2.0, 2.1], own=[0.5, 0.6], better=[1.5, 1.5])
    assert found.baselines == ["bad", "better"]
    assert found.best_baseline == "better"
    assert found.below_every_baseline
    assert "is below every baseline" in verdict(found)


def test_a_baseline_that_is_level_or_better_is_said():
    assert "does not beat b1" in verdict(comparison(model=[2.0, 2.1], b1=[1.0, 1.1]))
    assert "is not surely below the best baseline b1" in verdict(comparison(model=[1.0, 1.9], b1=[2.0, 1.5]))
    mixed = comparison(model=[1.0, 1.0], b1=[1.5, 1.6], b2=[0.9, 9.0])
    assert re.search(r"is below the best baseline b1 .*, but not surely below b2", verdict(mixed))


# --- harm


def test_harm_must_be_worse_by_percent_and_by_points():
    other = outcome([1.0], network_loss=10.0)  # 1 % of the 1000 GB that were offered
    found = {each.term: each for each in harms(outcome([1.0], network_loss=16.0), other)}
    assert list(found) == list(HARM_TERMS)
    assert found["network_loss"].points == pytest.approx(0.6)
    assert found["network_loss"].worse
    assert not harms(outcome([1.0], network_loss=14.0), other)[0].worse  # 40 % more, but 0.4 points
    much = outcome([1.0], network_loss=100.0)
    assert not harms(outcome([1.0], network_loss=109.0), much)[0].worse  # 0.9 points, but 9 % more


def test_harm_to_pods_is_a_share_of_the_pods():
    found = {each.term: each for each in harms(outcome([1.0], failures=3.0), outcome([1.0], failures=2.0))}
    assert found["failures"].points == pytest.approx(1.0)
    assert found["failures"].worse
    assert not found["memory_kills"].worse


def test_sampled_sums_agree_with_the_costs(small):
    """Where nothing is lost, no node was above its NIC, and the money says how long nodes were looked at."""
    crowded = replace(pieces_of([CHEAP], small, 5, 3)[0], sample=True)
    found = play_piece(crowded)
    hours = found.played.hours.sum()
    assert found.sampled.nic_node_s.sum() == pytest.approx(4 * hours * 3600.0, rel=1e-6)
    above = found.sampled.nic_node_s[100:].sum()
    assert (above > 0) == (found.played.terms[:, TERM["network_loss"]].sum() > 0)
    assert found.sampled.offered_gb > 0
    assert WEIGHTS.network_loss > 0
    assert found.sampled.nic_share_below()[-1] == pytest.approx(1.0)


def test_released_folder_is_the_default(monkeypatch, tmp_path):
    from training.contestants import models_named

    monkeypatch.setattr("training.contestants.DEFAULT_FOLDER", Path(tmp_path / "none"))
    assert models_named([])[0].name == "expected_utilisation"
    monkeypatch.setattr("training.contestants.DEFAULT_FOLDER", tmp_path)
    assert (models_named([])[0].name, models_named([])[0].kind) == ("policy", "released")
