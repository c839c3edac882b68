"""The ranking that is made while kube-scheduler still scores by its own plugins."""

import pytest

from agent.assumed import ExpectedUse, Requests
from serving.foreseen import FOR_S
from tests.serving.conftest import NAMES, a_snapshot
from tests.serving.test_extender import args, call, scores


@pytest.fixture
def considered(decider, monkeypatch):
    """UIDs of the pods that were ranked, in order."""
    uids, consider = [], decider.consider

    def counting(snapshot, pod, *more):
        uids.append(pod.uid)
        return consider(snapshot, pod, *more)

    monkeypatch.setattr(decider, "consider", counting)
    return uids


def ask_filter(client, body):
    """And let the loop go round once more: what follows an answer is done by then."""
    call(client, "filter", body)
    client.get("/healthz")


def test_what_was_ranked_after_filter_is_the_answer_to_prioritize(client, decider, considered):
    ask_filter(client, args())
    assert considered == ["u1"]
    foreseen = scores(client, args())
    assert considered == ["u1"]
    assert decider.assumed.node_of("u1") == max(foreseen, key=foreseen.get)
    assert [noted.uid for noted in decider.decisions.last(10)] == ["u1"]
    assert scores(client, args()) == foreseen  # asked again it is ranked again, without its own placement
    assert considered == ["u1", "u1"]


def test_nothing_comes_of_a_ranking_that_nobody_asks_for(client, decider, considered):
    ask_filter(client, args())
    assert considered == ["u1"]
    assert not len(decider.assumed)
    assert not len(decider.decisions)


def test_another_pod_is_ranked_for_itself(client, decider, considered):
    ask_filter(client, args())
    scores(client, args(uid="u2"))
    assert considered == ["u1", "u2"]
    assert decider.decisions.last(1)[0].uid == "u2"


def test_other_nodes_are_ranked_for_themselves(client, considered):
    ask_filter(client, args())
    assert scores(client, args(NAMES[:3])).keys() == set(NAMES[:3])
    assert considered == ["u1", "u1"]


def new_snapshot(source, decider, clock):
    source.current = a_snapshot()


def another_placement(source, decider, clock):
    decider.assumed.assume("u9", "idle", Requests(100.0), ExpectedUse(), clock())


def time_passes(source, decider, clock):
    clock.now_s += FOR_S


@pytest.mark.parametrize("change", [new_snapshot, another_placement, time_passes])
def test_a_changed_cluster_is_ranked_anew(client, source, decider, clock, considered, change):
    ask_filter(client, args())
    change(source, decider, clock)
    scores(client, args())
    assert considered == ["u1", "u1"]


def test_a_defect_while_ranking_ahead_costs_nothing(client, decider, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(decider, "consider", lambda *_: 1 / 0)
        ask_filter(client, args())
    assert max(scores(client, args()).values()) > 0
