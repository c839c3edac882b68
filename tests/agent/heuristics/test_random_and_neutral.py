from __future__ import annotations

import numpy as np

from agent.heuristics.neutral import Neutral
from agent.heuristics.random import Random


def test_neutral_holds_all_nodes_equal(score) -> None:
    assert score(Neutral(), {"cpu_used_millicores": [0, 1000, 4000]}).tolist() == [0, 0, 0]


def test_random_repeats_with_the_same_generator(score) -> None:
    first = score(Random(np.random.default_rng(7)))
    assert score(Random(np.random.default_rng(7))).tolist() == first.tolist()
    assert score(Random(np.random.default_rng(8))).tolist() != first.tolist()


def test_random_changes_from_call_to_call_and_stays_in_range(score) -> None:
    scorer = Random(np.random.default_rng(7))
    first, second = score(scorer, {"nodes": 1000}), score(scorer, {"nodes": 1000})
    assert not np.array_equal(first, second)
    assert 0 <= first.min() < 5
    assert 95 < first.max() < 100


def test_random_prefers_no_node(make_state, make_demand) -> None:
    candidates = np.ones((20_000, 3), dtype=np.bool_)
    best = Random(np.random.default_rng(7)).score(make_state(), make_demand(), candidates).argmax(axis=-1)
    np.testing.assert_allclose(np.bincount(best) / len(best), 1 / 3, atol=0.02)
