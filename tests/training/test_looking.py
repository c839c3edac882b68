"""What the notebooks show."""

from __future__ import annotations

import numpy as np
import pytest
from rich.console import Console

from agent.explain import Contribution, Explanation
from agent.features import NODE_FEATURES
from agent.heuristics.expected_utilisation import ExpectedUtilisation
from envs.dynamics.world import World
from training.looking import Released, cost_table, figure_of_explanations, png, policy_named
from training.worlds import make_world


class Model:
    """Prefers the first node; refuses all clusters or none."""

    def __init__(self, refuses: bool) -> None:
        self.refuses = refuses

    def rate(self, encoding, candidates):
        assert encoding.nodes.shape[-1] == len(NODE_FEATURES)
        return np.broadcast_to(-np.arange(candidates.shape[-1], dtype=float), candidates.shape)

    def out_of_range(self, encoding, candidates):
        return np.full(candidates.shape[:-1], self.refuses)


@pytest.mark.parametrize("refuses", [False, True])
def test_the_fallback_answers_where_the_model_refuses(refuses, small):
    world = World(make_world(small, 1, 0))
    state, demand, candidates = world.state(), world.demand(), world.candidates()
    values = Released(Model(refuses)).score(state, demand, candidates)
    expected = ExpectedUtilisation().score(state, demand, candidates) if refuses else [0.0, -1.0, -2.0, -3.0]
    np.testing.assert_array_equal(values, expected)


def test_a_heuristic_is_found_by_its_name_and_the_fallback_stands_in_for_the_policy(monkeypatch, tmp_path):
    monkeypatch.setattr("training.looking.DEFAULT_FOLDER", tmp_path / "none")
    assert policy_named("LeastAllocated").name == "least_allocated"
    assert policy_named("policy").name == "expected_utilisation"


def test_costs_stand_side_by_side_with_what_the_first_saves(capsys):
    costs = {"model": np.array([1.0, 2.0, 3.0]), "other": np.array([2.0, 3.0, 4.0])}
    Console(width=100).print(cost_table(costs))
    text = capsys.readouterr().out
    assert "2.000 ± " in text
    assert "-1.000 ± 0.000" in text


def test_every_feature_of_an_explanation_has_its_bar():
    parts = (Contribution("network use", 3.0), Contribution("cpu use", -1.0))
    figure = figure_of_explanations([Explanation(0, 5.0, 2.5, parts, 0.5)] * 2, ["a", "b"])
    panel = figure.axes[0]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["network use", "cpu use", "acting together"]
    assert [bar.get_width() for bar in panel.patches] == [3.0, -1.0, 0.5]
    assert png(figure).startswith(b"\x89PNG")
