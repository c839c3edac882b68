"""Golden cases of the rewards, and the one table of weights."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from agent.errors import InputError
from envs.dynamics.costs import TERM, TERMS
from envs.rewards import DIGEST, REWARDS, WEIGHTS, CostWeights, Outcome, dollars, reward_by_name, weighted_cost

NAN = float("nan")
DOCUMENT = Path(__file__).parents[2] / "docs" / "costs.md"


def outcome(node, pods=(0, 0, 0), **columns):
    """Three nodes and more after a placement; what a reward does not read may stay 0."""
    pods = np.asarray(pods, dtype=np.float64)
    nothing, one = np.zeros(pods.shape), np.zeros(pods.shape[:-1])
    values = {
        "terms": np.zeros((*pods.shape[:-1], len(TERMS))),
        "present": np.ones(pods.shape, dtype=bool),
        "connections": nothing,
        "traffic_mbps": nothing,
        "latency_ms": nothing,
        "own_connections": one,
        "own_traffic_mbps": one,
        "latency_soft_ms": one + NAN,
        "latency_hard_ms": one + NAN,
        **{name: np.asarray(column) for name, column in columns.items()},
    }
    return Outcome(node=np.asarray(node), pods=pods, **values)


def value(name, *args, **columns):
    return float(REWARDS[name](outcome(*args, **columns)).value)


class TestWeights:
    def test_every_term_has_exactly_one_weight_above_zero(self):
        assert [field.name for field in fields(CostWeights)] == list(TERMS)
        assert (WEIGHTS.values() > 0).all()

    def test_a_unit_of_each_term_costs_what_people_pay(self):
        hour = 3600.0
        terms = np.zeros(len(TERMS))
        terms[[TERM["network_loss"], TERM["cross_zone"], TERM["energy"], TERM["money"]]] = 4, 50, 10, 2.5
        assert weighted_cost(terms) == pytest.approx(4 * 0.25 + 50 * 0.02 + 10 * 0.15 + 2.5)
        terms = np.zeros(len(TERMS))
        terms[[TERM["latency_violation"], TERM["pending_time"], TERM["cpu_throttling"]]] = hour, hour, hour
        terms[[TERM["imbalance"], TERM["fragmentation"]]] = hour, hour
        assert weighted_cost(terms) == pytest.approx(0.36 + 0.36 + 0.40 + 0.10 + 0.005)

    def test_leading_axes_pass_through_and_terms_add_up(self):
        terms = np.random.default_rng(0).random((4, 3, len(TERMS)))
        assert weighted_cost(terms).shape == (4, 3)
        np.testing.assert_allclose(dollars(terms).sum(axis=-1), weighted_cost(terms))

    def test_another_price_is_another_digest(self):
        assert CostWeights().digest() == DIGEST
        assert replace(WEIGHTS, energy=0.16).digest() != DIGEST

    def test_the_document_has_the_same_terms_units_and_weights(self):
        rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert rows == [(name, unit, f"{getattr(WEIGHTS, name):.4g}") for name, unit in TERMS.items()]


class TestCost:
    def test_reward_is_minus_the_dollars(self):
        terms = np.zeros(len(TERMS))
        terms[TERM["money"]] = 3.0
        assert value("cost", 0, terms=terms) == -3.0


class TestMostAllocated:
    def test_fullest_node_earns_ten_times_the_share_of_unused_nodes_cut_to_a_whole_number(self):
        assert value("ma", 0, [8, 4, 0]) == 6.0  # int(10 x 2 / 3)

    def test_any_other_node_earns_nothing(self):
        assert value("ma", 1, [8, 5, 0]) == 0.0

    def test_a_node_with_five_pods_is_used(self):
        assert value("ma", 0, [8, 5, 0]) == 3.0  # int(10 x 1 / 3)

    def test_this_pod_alone_does_not_make_its_node_the_fullest(self):
        assert value("ma", 1, [6, 6, 0]) == 0.0  # there were 6 and 5 before

    def test_nodes_that_do_not_exist_count_for_nothing(self):
        assert value("ma", 0, [8, 4, 0], present=[True, True, False]) == 5.0


class TestLeastAllocated:
    @pytest.mark.parametrize(
        ("node", "pods", "expected", "ends"),
        [
            (0, [3, 4, 7], 10.0, False),  # 2, 4, 7 before: the emptiest
            (2, [2, 4, 8], -1.0, True),
            (1, [2, 5, 7], 0.0, False),
            (0, [3, 2, 2], 10.0, False),  # all equal before: none is the fullest
        ],
    )
    def test_emptiest_ten_fullest_minus_one_and_the_end(self, node, pods, expected, ends):
        reward = REWARDS["la"](outcome(node, pods))
        assert (float(reward.value), bool(reward.ends)) == (expected, ends)


class TestLeastConnections:
    def test_fewest_earns_one_minus_min_over_max_after_placement(self):
        assert value("lc", 1, connections=[80.0, 20.0, 50.0], own_connections=5.0) == 0.75

    def test_a_heavy_pod_does_not_make_the_right_choice_wrong(self):
        assert value("lc", 1, connections=[80.0, 100.0, 50.0], own_connections=70.0) == 0.5  # 30 before

    def test_any_other_node_earns_nothing(self):
        assert value("lc", 2, connections=[80.0, 20.0, 50.0]) == 0.0

    def test_without_any_connection_nothing_is_divided_by_zero(self):
        assert value("lc", 0, connections=[0.0, 0.0, 0.0]) == 0.0


class TestLatencyAware:
    def test_sum_of_unused_nodes_packing_and_latency(self):
        # n = 4, on = 2 (9 and 6), 20 pods: 2/4 + 20/2/50 + 1
        assert value("p0", 0, [9, 6, 5, 0], latency_ms=[20.0] * 4) == pytest.approx(0.5 + 0.2 + 1.0)

    def test_no_node_in_use_divides_nothing_by_zero(self):
        assert value("p0", 0, [5, 1, 0]) == pytest.approx(1.0 + 0.0 + 1.0)

    @pytest.mark.parametrize(
        ("latency_ms", "soft_ms", "hard_ms", "expected"),
        [
            (35, 35, 100, 1.0),
            (36, 35, 100, 0.5),
            (100, 35, 100, 0.5),
            (101, 35, 100, 0.0),
            (500, NAN, NAN, 1.0),
            (NAN, 35, 100, 0.5),
            (50, NAN, 40, 0.0),
        ],
    )
    def test_latency_part_steps_at_the_limits(self, latency_ms, soft_ms, hard_ms, expected):
        reward = value("p0", 0, [1, 0], latency_ms=[latency_ms, 0.0], latency_soft_ms=soft_ms, latency_hard_ms=hard_ms)
        assert reward == pytest.approx(1.0 + expected)


class TestArgmin:
    def test_least_traffic_earns_one_and_the_others_nothing(self):
        traffic = [30.0, 10.0, 20.0]
        assert [value("argmin", node, traffic_mbps=traffic) for node in range(3)] == [0.0, 1.0, 0.0]

    def test_the_pods_own_traffic_is_not_held_against_its_node(self):
        assert value("argmin", 1, traffic_mbps=[30.0, 60.0, 20.0], own_traffic_mbps=50.0) == 1.0


@pytest.mark.parametrize("nowhere", [-1, 3])
@pytest.mark.parametrize("name", [name for name in REWARDS if name != "cost"])
def test_not_scheduling_earns_nothing(name, nowhere):
    reward = REWARDS[name](outcome(nowhere, [2, 2, 2], connections=[1.0, 9.0, 1.0], traffic_mbps=[3.0, 9.0, 3.0]))
    assert (float(reward.value), bool(reward.ends)) == (0.0, False)


@pytest.mark.parametrize("name", REWARDS)
def test_a_batch_is_rewarded_as_its_clusters_one_by_one(name):
    rng = np.random.default_rng(3)
    pods, connections, traffic = rng.integers(1, 9, (16, 5)), rng.random((16, 5)), rng.random((16, 5))
    node = rng.integers(0, 5, 16)

    def of(rows):
        return REWARDS[name](
            outcome(
                node[rows],
                pods[rows],
                connections=connections[rows],
                traffic_mbps=traffic[rows],
                latency_ms=100 * traffic[rows],
                latency_soft_ms=np.full(np.shape(node[rows]), 40.0),
                latency_hard_ms=np.full(np.shape(node[rows]), 80.0),
            )
        )

    alone = [of(row) for row in range(16)]
    together = of(slice(None))
    np.testing.assert_array_equal(together.value, [reward.value for reward in alone])
    np.testing.assert_array_equal(together.ends, [reward.ends for reward in alone])


def test_names_in_capitals_are_right_too():
    assert reward_by_name("P0") is REWARDS["p0"]


def test_unknown_reward_is_refused_with_the_choices():
    with pytest.raises(InputError, match=r"unknown reward 'speed': choose one of cost, ma, la, lc, p0, argmin"):
        reward_by_name("speed")
