from collections import Counter

import numpy as np
import pytest

from agent.errors import InputError
from serving.configuration import load_settings
from serving.decide import new_decider
from serving.exploration import Exploration
from serving.settings import ExplorationSettings, ModelSettings, Settings
from tests.serving.conftest import a_snapshot
from tests.serving.test_decide import POD

MASK = np.array([True, False, True, True, False])


def explored(share, pods=20_000):
    exploration = Exploration(share)
    return [scores for number in range(pods) if (scores := exploration.scores(f"uid-{number}", MASK)) is not None]


def test_nobody_explores_unless_it_is_switched_on(settings):
    assert settings.exploration.share == 0.0
    assert explored(0.0) == []


@pytest.mark.parametrize("share", [0.01, 0.1])
def test_as_many_pods_explore_as_were_asked_for(share):
    assert len(explored(share)) / 20_000 == pytest.approx(share, rel=0.15)


def test_every_feasible_node_has_its_turn():
    firsts = Counter(int(np.flatnonzero(MASK)[scores.values[MASK].argmax()]) for scores in explored(0.2))
    assert set(firsts) == {0, 2, 3}
    assert min(firsts.values()) > 0.3 * sum(firsts.values())


def test_repeated_questions_for_one_pod_agree():
    exploration = Exploration(0.2)
    drawn = next(f"u{number}" for number in range(1000) if exploration.scores(f"u{number}", MASK) is not None)
    first, again = exploration.scores(drawn, MASK), Exploration(0.2).scores(drawn, MASK)
    np.testing.assert_array_equal(first.values, again.values)


def test_neither_a_mere_question_nor_a_pod_without_candidates_explores():
    assert Exploration(1.0).scores("", MASK) is None
    assert Exploration(1.0).scores("u1", np.zeros(5, dtype=bool)) is None


def test_a_decision_by_exploration_says_so_and_keeps_to_feasible_nodes(clock, metrics):
    settings = Settings(model=ModelSettings(folder="none"), exploration=ExplorationSettings(share=0.2))
    decider = new_decider(settings, clock, metrics.on_ranking, metrics.on_skip)
    decider.exploration = Exploration(1.0)
    decision = decider.decide(a_snapshot(), POD)
    assert decision.ranking.scores.source == "exploration"
    assert decision.model is None
    assert decision.best != "tainted"
    assert 'pilotfish_decisions_total{source="exploration"} 1.0' in metrics.exposition().decode()


def test_a_large_share_is_refused(monkeypatch):
    monkeypatch.setenv("PILOTFISH_EXPLORATION__SHARE", "0.5")
    with pytest.raises(InputError, match="PILOTFISH_EXPLORATION__SHARE"):
        load_settings()
