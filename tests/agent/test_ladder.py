from dataclasses import fields, replace

import numpy as np
import pytest

from agent.breaker import Breaker
from agent.cluster import GPUS_PER_NODE, ClusterState, Demand
from agent.ladder import SKIP_REASONS, Freshness, Ladder, Step, standard_ladder
from agent.scorer import OutOfRange, ScoringUnavailable

NODES = 4


def a_state(**columns) -> ClusterState:
    zeros = {column.name: np.zeros(NODES) for column in fields(ClusterState)}
    zeros |= {
        "schedulable": np.ones(NODES, dtype=bool),
        "zone": np.zeros(NODES, dtype=np.int64),
        "zone_rtt_ms": np.zeros((1, 1)),
        "gpu_free_milli": np.zeros((NODES, GPUS_PER_NODE)),
        "cpu_allocatable_millicores": np.full(NODES, 4000.0),
        "memory_allocatable_mib": np.full(NODES, 8192.0),
        "pods_allocatable": np.full(NODES, 110.0),
        "nic_mbps": np.full(NODES, 1000.0),
    }
    return ClusterState(**zeros | columns)


def a_demand() -> Demand:
    per_node = ("siblings_on_node", "siblings_in_zone", "sibling_rtt_ms")
    columns = {column.name: np.zeros(NODES if column.name in per_node else ()) for column in fields(Demand)}
    columns |= {"demand_source": np.asarray(0), "cpu_request_millicores": np.asarray(500.0)}
    return Demand(**columns)


ALL = np.ones(NODES, dtype=bool)
NONE = np.zeros(NODES, dtype=bool)


class ManualClock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Fixed:
    """A scorer that gives these values, or raises them."""

    def __init__(self, name, values, needs=(), clock=None, takes_s=0.0):
        self.name, self.values, self.needs, self.calls = name, values, needs, 0
        self.clock, self.takes_s = clock, takes_s

    def score(self, state, demand, candidates):
        self.calls += 1
        if self.clock:
            self.clock.now_s += self.takes_s
        if isinstance(self.values, Exception):
            raise self.values
        return np.asarray(self.values)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def climb(clock):
    """Builds a ladder of these scorers and keeps what it skipped."""

    def build(*scorers, **freshness):
        skips = []
        steps = [Step(scorer, Breaker(clock, 2, 30.0), Freshness(**freshness)) for scorer in scorers]
        ladder = Ladder(steps, clock, skips.append)
        ladder.skips = skips
        return ladder

    return build


FALLBACK = Fixed("fallback", [1.0, 2.0, 3.0, 4.0])


def test_the_first_step_that_can_answers(climb):
    scores = climb(Fixed("policy", [4.0, 3.0, 2.0, 1.0]), FALLBACK).score(a_state(), a_demand(), ALL)
    assert scores.source == "policy"
    assert scores.reason == ""
    assert scores.values.tolist() == [4.0, 3.0, 2.0, 1.0]


@pytest.mark.parametrize(
    ("broken", "reason", "said"),
    [
        (ScoringUnavailable("digest differs"), "unavailable", "digest differs"),
        (OutOfRange("8% of the values"), "out_of_range", "8% of the values"),
        (ZeroDivisionError("by zero"), "failed", "ZeroDivisionError"),
        ([1.0, np.nan, 1.0, 1.0], "not_finite", "1 of its values"),
        ([1.0, np.inf, -np.inf, 1.0], "not_finite", "2 of its values"),
        ([1.0, 2.0], "failed", "ValueError"),
        ("not numbers", "failed", "ValueError"),
    ],
)
def test_a_broken_step_is_skipped_and_the_answer_says_why(climb, broken, reason, said):
    ladder = climb(Fixed("policy", broken), FALLBACK)
    scores = ladder.score(a_state(), a_demand(), ALL)
    assert scores.source == "fallback"
    assert scores.values.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert scores.reason.startswith("policy skipped: ")
    assert said in scores.reason
    assert [(skip.step, skip.reason) for skip in ladder.skips] == [("policy", reason)]
    assert reason in SKIP_REASONS


def test_values_of_other_nodes_may_be_anything(climb):
    scores = climb(Fixed("policy", [1.0, np.nan, 2.0, np.inf]), FALLBACK).score(
        a_state(), a_demand(), np.array([True, False, True, False])
    )
    assert scores.source == "policy"


def test_open_breaker_skips_the_step_until_the_cooldown(climb, clock):
    policy = Fixed("policy", RuntimeError("broken"))
    ladder = climb(policy, FALLBACK)
    for _ in range(5):
        assert ladder.score(a_state(), a_demand(), ALL).source == "fallback"
    assert policy.calls == 2
    assert ladder.skips[-1].reason == "breaker"
    clock.now_s += 30.0
    policy.values = [4.0, 3.0, 2.0, 1.0]
    assert ladder.score(a_state(), a_demand(), ALL).source == "policy"


def test_a_step_out_of_range_is_asked_again_for_every_pod_and_never_opens_its_breaker(climb):
    policy = Fixed("policy", OutOfRange("8% of the values"))
    ladder = climb(policy, FALLBACK)
    for _ in range(5):
        assert ladder.score(a_state(), a_demand(), ALL).source == "fallback"
    assert policy.calls == 5
    assert ladder.steps[0].breaker.state == "closed"


def test_being_out_of_range_does_not_hide_failures_before_it(climb):
    policy = Fixed("policy", RuntimeError("broken"))
    ladder = climb(policy, FALLBACK)
    for answer in (RuntimeError("broken"), OutOfRange("8% of the values"), RuntimeError("broken")):
        policy.values = answer
        ladder.score(a_state(), a_demand(), ALL)
    assert ladder.steps[0].breaker.state == "open"


def test_a_blind_step_does_not_use_up_the_probe(climb, clock):
    policy = Fixed("policy", RuntimeError("broken"), needs=("network",))
    ladder = climb(policy, FALLBACK)
    for _ in range(2):
        ladder.score(a_state(), a_demand(), ALL)
    clock.now_s += 30.0
    policy.values = [4.0, 3.0, 2.0, 1.0]
    blind = a_state(network_age_s=np.full(NODES, np.inf))
    assert ladder.score(blind, a_demand(), ALL).source == "fallback"
    assert ladder.score(a_state(), a_demand(), ALL).source == "policy"


def aged(*ages_s):
    return a_state(network_age_s=np.array(ages_s))


def test_half_of_the_candidates_fresh_is_enough_and_the_others_are_held_at_the_median(climb):
    ladder = climb(Fixed("traffic", [9.0, 1.0, 3.0, np.nan], needs=("network",)), FALLBACK)
    scores = ladder.score(aged(91.0, 1.0, 90.0, np.inf), a_demand(), ALL)
    assert scores.source == "traffic"
    assert scores.values.tolist() == [2.0, 1.0, 3.0, 2.0]
    assert "2 of 4 nodes without fresh network held at the median" in scores.reason


def test_fewer_than_half_fresh_skips_the_step(climb):
    ladder = climb(Fixed("traffic", [9.0, 1.0, 3.0, 4.0], needs=("network",)), FALLBACK)
    scores = ladder.score(aged(91.0, 1.0, np.nan, np.inf), a_demand(), ALL)
    assert scores.source == "fallback"
    assert "only 1 of 4 candidates have fresh network" in scores.reason
    assert ladder.skips[0].reason == "stale"


def test_only_candidates_count_for_freshness(climb):
    ladder = climb(Fixed("traffic", [9.0, 1.0, 3.0, 4.0], needs=("network",)), FALLBACK)
    assert (
        ladder.score(aged(99.0, 1.0, 99.0, 99.0), a_demand(), np.array([False, True, False, False])).source == "traffic"
    )


def test_share_and_age_are_configurable(climb):
    traffic = Fixed("traffic", [9.0, 1.0, 3.0, 4.0], needs=("network",))
    strict = climb(traffic, FALLBACK, stale_after_s=5.0, min_fresh_share=1.0)
    assert strict.score(aged(5.0, 5.0, 5.0, 5.1), a_demand(), ALL).source == "fallback"
    assert strict.score(aged(5.0, 5.0, 5.0, 5.0), a_demand(), ALL).source == "traffic"
    lenient = climb(traffic, FALLBACK, stale_after_s=5.0, min_fresh_share=0.0)
    assert lenient.score(aged(9.0, 9.0, 9.0, 9.0), a_demand(), ALL).source == "fallback", "nobody to be a median of"


def test_no_step_begins_after_the_deadline(climb, clock):
    policy = Fixed("policy", RuntimeError("broken"), clock=clock, takes_s=0.2)
    ladder = climb(policy, FALLBACK)
    scores = ladder.score(a_state(), a_demand(), ALL, deadline_s=0.1)
    assert scores.source == "neutral"
    assert scores.values.tolist() == [0.0] * NODES
    assert "fallback skipped: the deadline has passed" in scores.reason
    assert [skip.reason for skip in ladder.skips] == ["failed", "deadline"]


def test_a_late_answer_is_used_but_a_slow_step_loses_its_place(climb, clock):
    ladder = climb(Fixed("policy", [4.0, 3.0, 2.0, 1.0], clock=clock, takes_s=0.2), FALLBACK)
    for _ in range(2):
        scores = ladder.score(a_state(), a_demand(), ALL, deadline_s=clock.now_s + 0.1)
        assert scores.source == "policy"
        assert "answered after the deadline" in scores.reason
    assert ladder.score(a_state(), a_demand(), ALL, deadline_s=clock.now_s + 0.1).source == "fallback"


def test_all_steps_failing_gives_equal_scores(climb):
    scores = climb(Fixed("policy", KeyError("x")), Fixed("other", OSError("y"))).score(a_state(), a_demand(), ALL)
    assert scores.source == "neutral"
    assert len(set(scores.values.tolist())) == 1
    assert "policy skipped" in scores.reason
    assert "other skipped" in scores.reason


def test_a_fully_masked_set_is_answered_without_asking_anybody(climb):
    policy = Fixed("policy", [4.0, 3.0, 2.0, 1.0])
    scores = climb(policy).score(a_state(), a_demand(), NONE)
    assert (scores.source, policy.calls) == ("neutral", 0)
    assert "no node is a candidate" in scores.reason


def test_a_cluster_without_nodes_is_answered(climb):
    assert climb(FALLBACK).score(a_state(), a_demand(), np.zeros(0, dtype=bool)).values.shape == (0,)


def test_a_mistake_in_what_a_step_needs_does_not_reach_the_caller(climb):
    assert (
        climb(Fixed("policy", [0.0] * 4, needs=("no_such_group",)), FALLBACK).score(a_state(), a_demand(), ALL).source
        == "fallback"
    )


@pytest.fixture
def standard(clock):
    return standard_ladder(clock, lambda: Breaker(clock), Freshness())


def test_without_a_policy_traffic_decides_while_metrics_are_fresh(standard):
    busy = a_state(rx_mbps=np.array([900.0, 10.0, 500.0, 500.0]), tx_mbps=np.array([900.0, 10.0, 500.0, 500.0]))
    scores = standard.score(busy, a_demand(), ALL)
    assert scores.source == "expected_utilisation"
    assert scores.values.argmax() == 1
    assert scores.values.argmin() == 0


def test_a_policy_stands_before_the_heuristics(clock):
    ladder = standard_ladder(clock, lambda: Breaker(clock), Freshness(), policy=Fixed("policy", [4.0, 3.0, 2.0, 1.0]))
    assert [step.scorer.name for step in ladder.steps] == ["policy", "expected_utilisation", "least_allocated"]
    assert ladder.score(a_state(), a_demand(), ALL).source == "policy"


def test_without_metrics_requests_decide(standard):
    blind = replace(
        a_state(cpu_requested_millicores=np.array([3000.0, 2000.0, 0.0, 1000.0])),
        **{f"{group}_age_s": np.full(NODES, np.inf) for group in ("cpu", "memory", "network")},
    )
    scores = standard.score(blind, a_demand(), ALL)
    assert scores.source == "least_allocated"
    assert scores.values.argmax() == 2
    assert scores.values.argmin() == 0


def test_a_node_with_an_unknown_nic_speed_does_not_take_the_traffic_step_away(standard):
    scores = standard.score(a_state(nic_mbps=np.array([1000.0, np.nan, 1000.0, 1000.0])), a_demand(), ALL)
    assert scores.source == "expected_utilisation"
