"""Who may be released after a live run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from agent.errors import InputError
from envs.workloads.scenario import load_scenario
from models.manifest import WORLD, EvaluationRow, read_manifest, write_manifest
from tests.tiny_model import release
from training import promote
from training.contestants import DEFAULT_FOLDER
from training.live_config import LEAST_EPISODES, LIVE, Examination, load_live_config
from training.live_verdict import RECORDING, Verdict, examined, read_verdict, write_verdict
from training.worlds import provenance


def row(percent: float, half: float, scenario: str = "one", episodes: int = LEAST_EPISODES) -> EvaluationRow:
    facts = provenance(load_scenario("microservices"), 0)
    return EvaluationRow(
        scenario=scenario,
        episodes=episodes,
        seed=1_000_000,
        cost_usd_per_hour=10.0 + percent / 10,
        best_other="released",
        best_other_usd_per_hour=10.0,
        difference_percent=percent,
        ci95_percent=(percent - half, percent + half),
        **{key: facts[key] for key in WORLD},
    )


WON = row(-1.0, 0.5, "microservices")  # what the models here were trained in


def verdict_of(*rows: EvaluationRow, candidate: str = "a" * 64, released: str = "b" * 64) -> Verdict:
    return Verdict(candidate_sha256=candidate, released_sha256=released, pods=10, falls=0, rows=rows)


@pytest.mark.parametrize(
    ("rows", "wins"),
    [
        ([(-2.0, 0.5), (-1.0, 0.5)], True),
        ([(-2.0, 0.5), (0.2, 0.5)], True),  # level in one world
        ([(-0.2, 0.5), (-0.1, 0.5)], False),  # perhaps chance
        ([(-9.0, 0.5), (1.0, 0.5)], False),  # surely dearer in one
        ([(0.0, 0.0)], False),  # nothing was learned
    ],
)
def test_it_wins_where_it_is_surely_cheaper_and_nowhere_surely_dearer(rows, wins) -> None:
    assert verdict_of(*(row(*each) for each in rows)).wins is wins


def test_the_words_name_the_numbers_that_decide() -> None:
    said = verdict_of(row(-9.0, 0.5, "bursts"), row(1.0, 0.5, "edge")).words()
    assert said.startswith("does not win: -4.000 % (95 %: ±0.354)")
    assert "surely dearer in edge +1.000 %" in said


def test_it_is_read_as_it_was_written(tmp_path) -> None:
    verdict = verdict_of(row(-1.0, 0.5))
    write_verdict(verdict, tmp_path)
    assert json.loads((tmp_path / "verdict.json").read_text())["wins"] is True
    assert read_verdict(tmp_path) == verdict


@pytest.mark.parametrize("content", ["", "[]", '{"wins": true}'])
def test_what_is_no_verdict_is_one_clear_error(tmp_path, content) -> None:
    (tmp_path / "verdict.json").write_text(content)
    with pytest.raises(InputError, match=r"verdict\.json: not a verdict"):
        read_verdict(tmp_path)


@pytest.fixture
def models(tmp_path, model_folder) -> tuple[Path, Path]:
    """A run's folder with its candidate, and a released model."""
    released = tmp_path / "released"
    shutil.copytree(model_folder, released)
    release(tmp_path / "run" / "model", seed=1)
    return tmp_path / "run", released


def verdict_for(run: Path, released: Path, *rows: EvaluationRow) -> Verdict:
    return verdict_of(*rows, candidate=read_manifest(run / "model").sha256, released=read_manifest(released).sha256)


class TestPromote:
    def test_a_candidate_that_won_becomes_the_released_model(self, models) -> None:
        run, released = models
        write_verdict(verdict_for(run, released, WON), run)
        promote.run(run, released)
        assert read_manifest(released) == read_manifest(run / "model")

    def test_one_that_did_not_is_refused_with_its_numbers_and_nothing_changes(self, models) -> None:
        run, released = models
        before = read_manifest(released)
        write_verdict(verdict_for(run, released, row(0.5, 0.2, "microservices")), run)
        with pytest.raises(InputError, match=r"not released, because it does not win: \+0.500 %"):
            promote.run(run, released)
        assert read_manifest(released) == before

    def test_a_verdict_about_another_candidate_is_refused(self, models) -> None:
        run, released = models
        write_verdict(verdict_for(run, released, WON), run)
        release(run / "model", seed=2)
        with pytest.raises(InputError, match="the verdict is about"):
            promote.run(run, released)

    def test_one_that_beat_another_released_model_is_refused(self, models) -> None:
        run, released = models
        write_verdict(verdict_for(run, released, WON), run)
        shutil.rmtree(released)
        release(released, seed=5)
        with pytest.raises(InputError, match="compared with"):
            promote.run(run, released)

    def test_a_verdict_by_other_cost_weights_is_refused(self, models) -> None:
        run, released = models
        verdict = verdict_for(run, released, WON).model_copy(update={"weights_digest": "0ddba11"})
        write_verdict(verdict, run)
        with pytest.raises(InputError, match="by cost weights 0ddba11, today's are"):
            promote.run(run, released)

    @pytest.mark.parametrize("update", [{"scenario_digest": "0ddba11"}, {"generator_version": 0}])
    def test_a_victory_in_another_world_of_the_same_name_is_refused(self, models, update) -> None:
        run, released = models
        write_verdict(verdict_for(run, released, WON.model_copy(update=update)), run)
        with pytest.raises(InputError, match="in other worlds than today's microservices"):
            promote.run(run, released)

    @pytest.mark.parametrize(
        ("rows", "few"),
        [
            ([row(-1.0, 0.5, "microservices", LEAST_EPISODES - 1)], f"microservices {LEAST_EPISODES - 1}"),
            ([WON, row(-1.0, 0.5, "one", 2)], "one 2"),
            ([row(-1.0, 0.5, "one")], "microservices 0"),
        ],
    )
    def test_too_few_episodes_of_any_world_are_refused(self, models, rows, few) -> None:
        run, released = models
        write_verdict(verdict_for(run, released, *rows), run)
        with pytest.raises(InputError, match=f"not released, because .* and has of {few}; train again"):
            promote.run(run, released)

    def test_it_must_play_wherever_the_released_model_was_measured(self, models) -> None:
        run, released = models
        measured = tuple(row(0.0, 0.1, name) for name in ("one", "two", f"{RECORDING}mine"))
        write_manifest(read_manifest(released).model_copy(update={"evaluation": measured}), released)
        write_verdict(verdict_for(run, released, row(-1.0, 0.5, "one")), run)
        with pytest.raises(InputError, match="has of two 0; train again"):
            promote.run(run, released)
        write_verdict(verdict_for(run, released, row(-1.0, 0.5, "one"), row(-1.0, 0.5, "two")), run)
        promote.run(run, released)

    def test_the_configuration_that_comes_along_examines_enough(self) -> None:
        exam = load_live_config(LIVE).exam
        played = dict.fromkeys(exam.scenarios, exam.episodes)
        assert promote.lacking(played, read_manifest(DEFAULT_FOLDER)) == ""

    def test_without_a_verdict_there_is_no_release(self, models) -> None:
        with pytest.raises(InputError, match="pilotfish train --live"):
            promote.run(*models)


def test_both_play_the_same_episodes_and_a_model_does_not_beat_itself(small, model_folder, tmp_path) -> None:
    scenario = tmp_path / "small.yaml"
    scenario.write_text(yaml.safe_dump(small.model_dump(mode="json")))
    exam = Examination(scenarios=[str(scenario)], episodes=3)
    found = examined(model_folder, model_folder, exam, None, pods=0, falls=0)
    assert [each.difference_percent for each in found.rows] == [0.0]
    assert not found.wins
    assert found.rows[0].scenario_digest == small.digest()
    other = examined(release(tmp_path / "other", seed=4), model_folder, exam, None, pods=0, falls=0)
    assert other.rows[0].difference_percent != 0.0
