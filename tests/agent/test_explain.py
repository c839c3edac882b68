from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pytest

from agent.cluster import ClusterState, Demand
from agent.explain import FEATURES, Contribution, Explanation, explain
from agent.heuristics.expected_utilisation import ExpectedUtilisation
from agent.heuristics.network_traffic import NetworkTraffic
from agent.heuristics.registry import SCORERS, scorer_by_name

NAN = np.nan
NODES = 5
ALL = np.ones(NODES, dtype=np.bool_)


@dataclass(frozen=True)
class Linear:
    """3 x CPU used - 2 x received + price + 10 x siblings here - pending + free GPU share."""

    name = "linear"
    needs = ()

    def score(self, state, demand, candidates):
        return (
            3.0 * state.cpu_used_millicores
            - 2.0 * state.rx_mbps
            + state.price_usd_per_hour
            + 10.0 * demand.siblings_on_node
            - state.pending_cpu_millicores
            + state.gpu_free_milli.sum(axis=-1) / 1000.0
            + demand.queue_length[..., None]
        )


@pytest.fixture
def cluster(make_state, make_demand):
    rng = np.random.default_rng(2)
    state = make_state(
        NODES,
        cpu_used_millicores=rng.uniform(0, 4000, NODES),
        rx_mbps=rng.uniform(0, 900, NODES),
        price_usd_per_hour=rng.uniform(0, 2, NODES),
        pending_cpu_millicores=rng.uniform(0, 100, NODES),
        gpu_free_milli=rng.uniform(0, 1000, (NODES, 8)),
    )
    return state, make_demand(NODES, siblings_on_node=[0, 1, 2, 0, 0], queue_length=4)


def test_a_linear_scorer_is_explained_exactly(cluster) -> None:
    state, demand = cluster
    scores = Linear().score(state, demand, ALL)
    for told in explain(Linear(), state, demand, ALL, range(NODES)):
        changes = {part.feature: part.change for part in told.contributions}
        assert told.score == pytest.approx(scores[told.node])
        assert told.score_at_mean == pytest.approx(scores.mean())
        assert sum(changes.values()) == pytest.approx(told.score - told.score_at_mean, abs=1e-9)
        assert told.remainder == pytest.approx(0.0, abs=1e-9)
        cpu = state.cpu_used_millicores
        assert changes["cpu use"] == pytest.approx(3.0 * (cpu[told.node] - cpu.mean()))
        assert changes["network use"] == pytest.approx(-2.0 * (state.rx_mbps[told.node] - state.rx_mbps.mean()))
        assert set(changes) == {"cpu use", "network use", "price", "siblings", "pending placements", "gpus"}


def test_contributions_are_sorted_by_size_and_nodes_come_as_asked(cluster) -> None:
    told = explain(Linear(), *cluster, ALL, [3, 1])
    assert [each.node for each in told] == [3, 1]
    sizes = [abs(part.change) for part in told[0].contributions]
    assert sizes == sorted(sizes, reverse=True)


def test_the_mean_is_that_of_the_candidates_with_a_value(make_state, make_demand) -> None:
    state = make_state(4, cpu_used_millicores=[10, 30, NAN, 9000])
    told = explain(Linear(), state, make_demand(4), np.array([True, True, True, False]), [0])[0]
    assert told.contributions == (Contribution("cpu use", pytest.approx(3.0 * (10 - 20))),)


def test_each_node_is_changed_alone_among_its_peers(make_state, make_demand) -> None:
    """A relative scorer: were all nodes changed at once, the idle and the busy one would both look helped."""
    state = make_state(4, rx_mbps=[0, 45, 60, 75])
    idle, middle, busy, _ = explain(NetworkTraffic(), state, make_demand(4), np.ones(4, dtype=np.bool_), range(4))
    assert idle.contributions == (Contribution("network use", pytest.approx(60)),)  # at 45 of 75 it would score 40
    assert middle.contributions == ()
    assert busy.contributions == (Contribution("network use", pytest.approx(-20)),)


@pytest.mark.parametrize("name", [name for name in SCORERS if name != "random"])
def test_parts_and_remainder_add_up_for_every_scorer(make_state, make_demand, name) -> None:
    rng = np.random.default_rng(4)
    state = make_state(
        NODES,
        cpu_used_millicores=rng.uniform(0, 4000, NODES),
        cpu_requested_millicores=rng.uniform(0, 4000, NODES),
        memory_used_mib=rng.uniform(0, 8000, NODES),
        rx_mbps=rng.uniform(0, 900, NODES),
        nic_mbps=[1000, 2000, NAN, 1000, 500],
        pods_running=rng.integers(0, 9, NODES),
        connections=rng.integers(0, 99, NODES),
        zone=[0, 0, 1, 1, 1],
        zone_rtt_ms=[[0, 3], [3, 0]],
    )
    demand = make_demand(NODES, cpu_request_millicores=500, siblings_in_zone=[2, 2, 1, 1, 1], siblings=3)
    for told in explain(scorer_by_name(name), state, demand, ALL, range(NODES)):
        parts = sum(part.change for part in told.contributions) + told.remainder
        assert told.score == pytest.approx(told.score_at_mean + parts)


def test_a_node_without_a_score_says_why_instead(make_state, make_demand) -> None:
    state = make_state(rx_mbps=[NAN, 10, 20])
    told = explain(ExpectedUtilisation(), state, make_demand(), np.ones(3, dtype=np.bool_), [0])[0]
    assert told.missing
    assert told.contributions == ()
    assert "metric is missing" in told.sentence("node-1")


def test_sentence_names_the_three_largest_parts_and_sums_up_the_rest() -> None:
    parts = (("network use", 9.06), ("cpu use", -4.0), ("requests", 0.7), ("price", 0.2), ("power", 0.1))
    told = Explanation(0, 71.25, 65.0, tuple(Contribution(*part) for part in parts), 0.19)
    assert told.sentence("node-3") == (
        "node-3 scores 71.2, 6.25 above an average candidate: network use +9.06, cpu use -4, requests +0.7, "
        "other features +0.3, features acting together +0.19."
    )


def test_sentence_of_an_average_node() -> None:
    assert Explanation(0, 50.0, 50.0, (), 0.0).sentence("node-3") == "node-3 scores 50, like an average candidate."


def test_sentence_of_a_node_below_average() -> None:
    told = Explanation(0, 40.0, 50.0, (Contribution("cpu use", -10.0),), 0.0)
    assert told.sentence("node-3") == "node-3 scores 40, 10 below an average candidate: cpu use -10."


def test_every_column_that_differs_by_node_belongs_to_one_feature() -> None:
    listed = [column for columns in FEATURES.values() for column in columns]
    without_mean = {"zone", "schedulable", "zone_rtt_ms"}
    of_the_pod = {column.name for column in fields(Demand)} - set(listed)
    assert len(listed) == len(set(listed))
    assert {column.name for column in fields(ClusterState)} - set(listed) == without_mean
    assert not {name for name in of_the_pod if name.endswith(("_on_node", "_in_zone"))}
    assert set(listed) <= {column.name for table in (ClusterState, Demand) for column in fields(table)}
