"""Taking something from a policy, and what it loses by it."""

from __future__ import annotations

import numpy as np
import pytest

from agent.features import NODE_FEATURES, Encoding
from training.ablations import ABLATIONS, Ablated, ablate, uses_traffic, world_for_slow_metrics
from training.comparison import Difference
from training.contestants import Contestant
from training.episodes import Handicap, pieces_of, play_piece
from training.evaluate import Exam
from training.shuffling import TRAFFIC, permutation, shuffled
from training.worlds import make_world

pytestmark = pytest.mark.timeout(400)

COLUMN = {name: index for index, name in enumerate(NODE_FEATURES)}
FALLBACK = Contestant("expected_utilisation", "heuristic", "expected_utilisation", baseline=True)


@pytest.fixture
def encoding() -> Encoding:
    rng = np.random.default_rng(1)
    nodes = rng.random((50, 6, len(NODE_FEATURES))).astype(np.float32)
    expected = [COLUMN[f"{kind}_expected_ratio"] for kind in ("cpu", "memory", "rx", "tx")]
    nodes[..., COLUMN["worst_expected_ratio"]] = nodes[..., expected].max(axis=-1)
    return Encoding(nodes, np.zeros((50, 3), np.float32))


@pytest.fixture
def candidates() -> np.ndarray:
    return np.random.default_rng(2).random((50, 6)) < 0.7


# --- shuffling


def test_candidates_change_places_among_themselves_and_others_stay(candidates):
    source = permutation(candidates, np.random.default_rng(0))
    for row, inside in zip(source, candidates, strict=True):
        assert sorted(row) == list(range(6))
        assert (row[~inside] == np.flatnonzero(~inside)).all()
    moved = (source != np.arange(6))[candidates]
    assert 0.5 < moved.mean() < 0.95


def test_shuffled_columns_move_together_and_the_others_stay(encoding, candidates):
    before = encoding.nodes.copy()
    after = shuffled(TRAFFIC, np.random.default_rng(0))(encoding, candidates).nodes
    np.testing.assert_array_equal(encoding.nodes, before)
    columns = [COLUMN[name] for name in TRAFFIC]
    others = [index for name, index in COLUMN.items() if name not in (*TRAFFIC, "worst_expected_ratio")]
    np.testing.assert_array_equal(after[..., others], before[..., others])
    for row in range(50):
        had = {tuple(values) for values in before[row, candidates[row]][:, columns]}
        assert {tuple(values) for values in after[row, candidates[row]][:, columns]} == had
    assert not np.array_equal(after[..., columns], before[..., columns])


def test_the_worst_ratio_follows_the_shuffled_traffic(encoding, candidates):
    after = shuffled(TRAFFIC, np.random.default_rng(0))(encoding, candidates).nodes
    expected = after[..., [COLUMN[f"{kind}_expected_ratio"] for kind in ("cpu", "memory", "rx", "tx")]].max(axis=-1)
    np.testing.assert_array_equal(after[..., COLUMN["worst_expected_ratio"]][candidates], expected[candidates])


# --- worse metrics


def test_a_handicap_leaves_pods_and_loads_as_they_are(small):
    tape = make_world(world_for_slow_metrics(small), 3, 0)
    worse = Handicap(delay_s=0.0, missing=0.1).tape(tape, np.random.default_rng(0))
    assert float(worse.scrape_delay_s) == 0.0
    assert worse.scrape_missing.mean() > tape.scrape_missing.mean() + 0.05
    assert (worse.scrape_missing | tape.scrape_missing).sum() == worse.scrape_missing.sum()
    np.testing.assert_array_equal(worse.pod_arrival_s, tape.pod_arrival_s)
    np.testing.assert_array_equal(worse.app_load, tape.app_load)


def test_late_metrics_change_decisions_but_not_arrivals(small):
    world = world_for_slow_metrics(small)
    played = [
        play_piece(pieces_of([FALLBACK], world, 3, 3, handicap=Handicap(delay_s=delay_s))[0]).played
        for delay_s in (0.0, 60.0)
    ]
    assert played[0].decisions.tolist() == played[1].decisions.tolist()
    assert not np.array_equal(played[0].terms, played[1].terms)


def test_a_policy_that_reads_only_traffic_is_hurt_by_shuffling_it(small, monkeypatch):
    """The one that looks at requests does not notice."""
    from agent.linear import LinearScorer, weights_from

    vectors = {"traffic": {"tx_expected_ratio": -1.0, "rx_expected_ratio": -1.0}, "requests": {"pods_ratio": -1.0}}
    monkeypatch.setattr(
        "training.contestants.load_linear", lambda name: LinearScorer(weights_from(vectors[name]), name)
    )
    handicap = Handicap(shuffle=TRAFFIC)
    changed = {}
    for name in vectors:
        monkeypatch.setattr("training.contestants.MIX", name)
        who = Contestant(name, "linear", name, baseline=False)
        plain = play_piece(pieces_of([who], small, 3, 4)[0]).played.terms
        distorted = play_piece(pieces_of([who], small, 3, 4, handicap=handicap)[0]).played.terms
        changed[name] = not np.array_equal(plain, distorted)
    assert changed == {"traffic": True, "requests": False}


def test_a_heuristic_is_ablated_by_metrics_and_assumed_placements_only(small):
    found = ablate(FALLBACK, small, Exam(episodes=3, seed=3))
    assert [each.ablation.name for each in found] == ["assumed off", "10 % missing", "15 s late", "60 s late"]
    assert any(each.change.mean != 0.0 for each in found)


# --- in words


def row(name: str, mean: float) -> Ablated:
    ablation = next(each for each in ABLATIONS if each.name == name)
    return Ablated("bursts", ablation, Difference(mean, 0.5, 10 * mean, 5.0))


def test_words_say_whether_traffic_is_used():
    used = uses_traffic([row("traffic shuffled", 2.0), row("siblings shuffled", 0.1)])
    assert "The model uses NIC traffic: with it shuffled the cost rises in bursts (+20.0 %)" in used
    assert "does not use sibling traffic and places" in used
    assert "reads no features" in uses_traffic([row("assumed off", 1.0)])
