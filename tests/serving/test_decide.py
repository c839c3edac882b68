from collections import Counter

import numpy as np
import pytest

from agent.cluster import Pod
from agent.demand import demand_of
from agent.scorer import Scores
from envs.live.snapshot import Snapshot
from serving.decide import best_node, new_decider
from serving.settings import Settings
from tests.serving.conftest import NAMES, a_snapshot

POD = Pod(uid="u1", name="web-1", cpu_request_millicores=500, memory_request_bytes=2**28)
ALL = np.ones(len(NAMES), dtype=bool)


def test_the_best_node_is_the_one_with_the_highest_value():
    values = np.array([1.0, 5.0, 9.0, 2.0, 3.0])
    assert best_node(Scores(values, "x"), ALL, "u1") == 2
    assert best_node(Scores(values, "x"), np.array([True, True, False, True, True]), "u1") == 1
    assert best_node(Scores(values, "x"), ~ALL, "u1") is None


def test_equal_nodes_are_shared_out_by_pod_and_each_pod_keeps_its_node():
    equal = Scores(np.zeros(len(NAMES)), "neutral")
    chosen = Counter(best_node(equal, ALL, f"pod-{number}") for number in range(1000))
    assert set(chosen) == set(range(5))
    assert min(chosen.values()) > 100
    assert len({best_node(equal, ALL, "pod-7") for _ in range(5)}) == 1


def test_the_same_order_as_the_ladder_gives_for_the_same_question(decider):
    snapshot = a_snapshot()
    decision = decider.decide(snapshot, POD, assume=False)
    demand = demand_of(POD, snapshot.observed, snapshot.state, np.zeros(len(NAMES)), 3)
    alone = decider.rank(snapshot.state, demand, decision.candidates, POD.uid)
    np.testing.assert_array_equal(decision.ranking.scores.values, alone.scores.values)
    np.testing.assert_array_equal(decision.ranking.levels, alone.levels)
    assert decision.best == NAMES[alone.best]


def test_a_pod_without_a_uid_is_never_assumed(decider):
    decider.decide(a_snapshot(), Pod(uid="", name="what-if"))
    assert len(decider.assumed) == 0


def test_as_many_decisions_are_kept_as_the_settings_say(clock):
    settings = Settings(decisions={"keep": 3})
    decider = new_decider(settings, clock, lambda ranking: None, lambda skip: None)
    for number in range(5):
        decider.decide(a_snapshot(), Pod(uid=f"u{number}"))
    assert len(decider.decisions) == 3


def test_placements_not_yet_shown_move_the_expected_utilisation(decider):
    snapshot = a_snapshot()
    before = decider.decide(snapshot, POD, assume=False).ranking.scores.values[0]
    heavy = Pod(uid="u2", annotations={"pilotfish.io/network-mbps": "400"})
    assert decider.decide(snapshot, heavy).best == "idle"
    assert decider.decide(snapshot, POD, assume=False).ranking.scores.values[0] < before - 20.0


def test_pods_of_one_app_see_each_other_before_the_watch_shows_them(decider):
    snapshot = a_snapshot()
    first, second, other = (Pod(uid=uid, app=app) for uid, app in (("u1", "web"), ("u2", "web"), ("u3", "db")))
    placed = decider.decide(snapshot, first)
    assert placed.demand.siblings == 0
    seen = decider.decide(snapshot, second, assume=False).demand
    assert seen.siblings == 1
    assert seen.siblings_on_node[NAMES.index(placed.best)] == 1
    assert decider.decide(snapshot, first, assume=False).demand.siblings == 0  # nobody is his own sibling
    assert decider.decide(snapshot, other, assume=False).demand.siblings == 0


def test_pods_that_were_placed_are_in_the_queue_no_more_before_the_watch_shows_it(decider):
    snapshot = a_snapshot()  # three wait
    queues = [decider.decide(snapshot, Pod(uid=f"u{number}")).demand.queue_length for number in range(4)]
    assert queues == [3, 2, 1, 1]  # the last is there, whatever the watch shows
    assert decider.decide(snapshot, Pod(uid="u3")).demand.queue_length == 1  # asked for again


def test_the_deadline_counts_from_the_question(decider, clock, monkeypatch):
    def slowly(*_):
        clock.now_s += 0.2
        return np.zeros(len(NAMES))

    monkeypatch.setattr(Snapshot, "siblings_of", slowly)
    decision = decider.decide(a_snapshot(), POD)
    assert decision.ranking.scores.source == "neutral"
    assert "deadline" in decision.ranking.scores.reason


@pytest.mark.parametrize("broken", [ValueError("x"), MemoryError("y")])
def test_a_broken_step_does_not_reach_the_caller(decider, monkeypatch, broken):
    def fail(*_):
        raise broken

    monkeypatch.setattr(type(decider.ladder.steps[0].scorer), "score", fail)
    assert decider.decide(a_snapshot(), POD).ranking.scores.source == "least_allocated"
