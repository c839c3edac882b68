"""The cross-entropy method: it finds what is cheaper, spends what it may, and says where its weights come from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import pilotfish
from agent.errors import InputError
from agent.features import NODE_COLUMN, NODE_FEATURES
from agent.linear import LinearScorer, weights_from
from envs.workloads.scenario import Scenario, load_scenario
from envs.workloads.synthetic import make_tapes
from models.linear import MIX, load_linear, read_vectors
from training import cem
from training.cem import Cloud, Search, costs_of, feature_spread, generations, starts, worlds_of
from training.play import play
from training.worlds import limited

pytestmark = pytest.mark.timeout(600)

TINY = Search(population=8, episodes=2, checked_episodes=2)


def moved(search: Search, share: float, generations_: int = 60) -> Cloud:
    """A cloud that follows a cost it can see: the distance from a point, in two of three features."""
    rng, cloud = np.random.default_rng(0), Cloud("zero", np.zeros(3), np.array([1.0, 1.0, 0.0]))
    for _ in range(generations_):
        drawn = cloud.mean + cloud.spread * rng.standard_normal((search.population, 3))
        cem._move(cloud, drawn, np.sum((drawn - [1.0, -2.0, 5.0]) ** 2, axis=1), share, search)
    return cloud


def test_the_mean_moves_to_the_cheapest_place() -> None:
    cloud = moved(Search(), 1.0)
    assert cloud.mean[:2] == pytest.approx([1.0, -2.0], abs=0.1)
    assert cloud.generations == 60
    assert cloud.history[-1] < cloud.history[0]


def test_a_weight_without_spread_stays() -> None:
    cloud = moved(Search(), 1.0)
    assert (cloud.mean[2], cloud.spread[2]) == (0.0, 0.0)


def test_the_least_spread_shrinks_as_the_budget_is_used_up() -> None:
    early, late = moved(Search(), 0.0), moved(Search(), 1.0)
    length = np.sqrt((early.mean**2).mean())
    assert early.spread[0] >= 0.9 * Search().noise * length
    assert late.spread[0] < 0.3 * early.spread[0]


def test_costs_are_those_of_playing_each_vector_on_each_episode(small: Scenario) -> None:
    tape = make_tapes(small, 4, range(3))
    vectors = np.stack([weights_from({"cpu_requested_ratio": w, "tx_expected_ratio": -0.37}) for w in (-1.0, 1.0)])
    cost, decisions = costs_of(vectors, tape)
    slow = [play(LinearScorer(weights), tape) for weights in vectors]
    np.testing.assert_allclose(cost, [played.cost_per_hour for played in slow], rtol=0.02)  # but for ties
    assert decisions == sum(int(played.decisions.sum()) for played in slow)


def test_many_clusters_are_played_in_parts_with_the_same_result(small: Scenario, monkeypatch) -> None:
    tape = make_tapes(small, 4, range(3))
    vectors = np.random.default_rng(0).normal(size=(5, len(NODE_FEATURES)))
    whole = costs_of(vectors, tape)
    monkeypatch.setattr(cem, "NODES_AT_ONCE", 4 * tape.node_slots)
    parts = costs_of(vectors, tape)
    np.testing.assert_array_equal(parts[0], whole[0])
    assert parts[1] == whole[1]


def test_features_that_never_differ_between_nodes_get_no_weight(small: Scenario) -> None:
    scale = feature_spread([small], 1, episodes=4, looks=10)
    assert scale[NODE_COLUMN["gpu_requested_ratio"]] == np.inf  # no GPUs here
    assert scale[NODE_COLUMN["metric_missing"]] == np.inf  # never chosen, whatever its weight
    assert np.isfinite(scale[NODE_COLUMN["cpu_requested_ratio"]])
    for cloud in starts({"hand": weights_from(cem.HAND_RULE)}, scale):
        assert cloud.spread[NODE_COLUMN["gpu_requested_ratio"]] == cloud.mean[NODE_COLUMN["gpu_requested_ratio"]] == 0.0


def test_a_search_goes_on_until_its_decisions_are_spent(small: Scenario) -> None:
    scale = feature_spread([small], 1, episodes=2, looks=5)
    cloud = next(iter(starts({"zero": np.zeros(len(scale))}, scale)))
    for _ in generations(cloud, [small], scale, 3000, 3000, 1, TINY):
        last = cloud.decisions
    assert 3000 <= last < 3000 + 2 * last / cloud.generations


def test_no_world_of_the_mix_has_more_nodes_than_training_may_see() -> None:
    worlds = worlds_of(MIX, None)
    assert [world.name for world in worlds] == list(cem.MIX_SCENARIOS)
    assert max(world.nodes.count.high for world in worlds) == 100
    assert limited(load_scenario("edge"), 100).digest() == load_scenario("edge").digest()


def test_the_mix_can_be_tuned_where_the_policy_learns() -> None:
    plain, varied = worlds_of(MIX, None), worlds_of(MIX, 0.5)
    assert {world.loads.varied for world in plain} == {0.0}
    assert {world.loads.varied for world in varied} == {0.5}


def test_held_out_seeds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="held out"):
        cem.run(["edge"], decisions=1, seed=1_000_000, out=tmp_path, as_json=False)


def test_a_tuned_vector_is_written_with_its_facts_beside_the_others(
    small: Scenario, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(cem, "worlds_of", lambda name, varied_loads: [small])
    search = {"decisions": 6000, "seed": 2, "out": tmp_path, "as_json": True, "search": TINY}
    cem.run([MIX], **search)
    cem.run(["small"], **search)
    vectors = read_vectors(tmp_path / "weights.json")
    assert list(vectors) == [MIX, "small"]
    facts = vectors["small"]
    assert facts["scenarios"] == {"small": small.digest()}
    assert facts["decisions"] >= 6000
    assert facts["start"] in ("hand", "mix")
    assert vectors[MIX]["start"] in ("zero", "hand")
    assert facts["costs"]["small"]["ratio"] > 0
    assert load_linear("small", tmp_path / "weights.json").weights.any()


def test_a_vector_that_is_there_is_tuned_further_and_its_decisions_add_up(small, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(cem, "worlds_of", lambda name, varied_loads: [small])
    search = {"seed": 2, "out": tmp_path, "as_json": True, "search": TINY}
    cem.run([MIX], decisions=4000, **search)
    first = read_vectors(tmp_path / "weights.json")[MIX]
    cem.run([MIX], decisions=2000, **search)
    second = read_vectors(tmp_path / "weights.json")[MIX]
    assert second["start"] == "before"
    assert second["decisions"] >= first["decisions"] + 2000
    assert second["weights"] != first["weights"]


def test_the_same_seed_gives_the_same_weights(small: Scenario, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(cem, "worlds_of", lambda name, varied_loads: [small])
    for folder in ("one", "other"):
        cem.run([MIX], decisions=4000, seed=2, out=tmp_path / folder, as_json=True, search=TINY)
    one, other = (read_vectors(tmp_path / folder / "weights.json") for folder in ("one", "other"))
    assert one == other


def test_the_command_names_the_choices_for_an_unknown_scenario(tmp_path: Path) -> None:
    result = CliRunner().invoke(pilotfish.app, ["cem", "--scenario", "nowhere", "--out", str(tmp_path)])
    assert isinstance(result.exception, InputError)
    assert "edge" in str(result.exception)
    assert json.dumps(list(tmp_path.iterdir())) == "[]"
