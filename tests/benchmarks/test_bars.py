from __future__ import annotations

import pytest

from agent.errors import InputError
from benchmarks.bars import Goal, goals, measured


def goal(comparison: str) -> Goal:
    return Goal("env", "some_bar", comparison, 10.0, "s", 3, "ten seconds")


@pytest.mark.parametrize(
    ("comparison", "value", "met"),
    [
        ("at_least", 10.0, True),
        ("at_least", 9.9, False),
        ("at_most", 10.0, True),
        ("at_most", 10.1, False),
        ("at_least", float("nan"), False),
        ("at_most", float("nan"), False),
    ],
)
def test_goal_is_met_on_its_side_only_and_never_by_nan(comparison, value, met):
    assert goal(comparison).met_by(value) is met


def test_measured_value_takes_goal_and_unit_from_the_file():
    bar = measured("batch_over_reference", 49.0, clusters=4096)
    assert (bar.goal, bar.unit, bar.comparison, bar.met) == (50.0, "times", "at_least", False)
    assert bar.beside == {"clusters": 4096}


def test_bar_without_goal_is_refused_with_the_choices():
    with pytest.raises(InputError, match=r"no goal for the bar speed; .*batch_over_reference"):
        measured("speed", 1.0)


def test_goals_of_issue_3_are_copied_as_they_stand_there():
    assert {bar: (found.comparison, found.value) for bar, found in goals().items() if found.issue == 3} == {
        "batch_decisions_per_s_20_nodes": ("at_least", 150_000),
        "batch_decisions_per_s_100_nodes": ("at_least", 30_000),
        "batch_over_reference": ("at_least", 50),
        "memory_4096_clusters_20_nodes_gb": ("at_most", 1),
        "cost_growth_exponent": ("at_most", 1),
        "max_deviation_points": ("at_most", 1),
        "minutes": ("at_most", 20),
        "make_run_first_score_s": ("at_most", 60),
        "make_test_minutes": ("at_most", 10),
    }


@pytest.mark.parametrize("entry", ["{unit: s, issue: 3, words: w}", "{at_least: 1, at_most: 2, unit: s, issue: 3}"])
def test_goal_without_exactly_one_direction_is_refused(tmp_path, entry):
    file = tmp_path / "goals.yaml"
    file.write_text(f"env: {{some_bar: {entry}}}")
    with pytest.raises(InputError, match="some_bar needs exactly one of at_least and at_most"):
        goals(file)


def test_one_bar_under_two_benchmarks_is_refused(tmp_path):
    entry = "{some_bar: {at_least: 1, unit: s, issue: 3, words: w}}"
    file = tmp_path / "goals.yaml"
    file.write_text(f"env: {entry}\nfgd: {entry}")
    with pytest.raises(InputError, match="some_bar stands in both env and fgd"):
        goals(file)
