from __future__ import annotations

import numpy as np
import pytest

from agent.scorer import masked_median, missing_metrics, neutral_where_missing

NAN, INF = np.nan, np.inf


def mask(*values):
    return np.array(values, dtype=np.bool_)


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ((), [False, False, False]),
        (("cpu",), [False, True, False]),
        (("network",), [False, False, True]),
        (("cpu", "network"), [False, True, True]),
    ],
)
def test_a_node_is_missing_if_any_needed_group_is_too_old(make_state, needs, expected) -> None:
    state = make_state(cpu_age_s=[60, 60.1, 0], network_age_s=[0, 0, INF], memory_age_s=[INF, INF, INF])
    assert missing_metrics(state, needs, stale_after_s=60).tolist() == expected


def test_an_unknown_age_is_missing(make_state) -> None:
    assert missing_metrics(make_state(cpu_age_s=[NAN, 0, 0]), ("cpu",), stale_after_s=INF).tolist() == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("values", "chosen", "expected"),
    [
        ([3.0, 1.0, 2.0], mask(1, 1, 1), 2.0),
        ([3.0, 1.0, 2.0, 9.0], mask(1, 1, 1, 1), 2.5),
        ([3.0, 1.0, 2.0, 9.0], mask(1, 0, 0, 1), 6.0),
        ([NAN, 1.0, -INF], mask(0, 1, 0), 1.0),
        ([5.0, 6.0], mask(0, 0), 0.0),
        ([7.0], mask(1), 7.0),
    ],
)
def test_median_is_of_the_values_under_the_mask(values, chosen, expected) -> None:
    assert masked_median(np.array(values), chosen) == pytest.approx(expected)


def test_median_is_taken_for_each_cluster() -> None:
    values = np.array([[1.0, 2.0, 30.0], [4.0, NAN, 8.0], [1.0, 1.0, 1.0]])
    chosen = np.array([[1, 1, 1], [1, 0, 1], [0, 0, 0]], dtype=np.bool_)
    assert masked_median(values, chosen).tolist() == [2.0, 6.0, 0.0]


def test_median_equals_numpy_on_random_masks() -> None:
    rng = np.random.default_rng(0)
    values, chosen = rng.normal(size=(200, 15)), rng.random((200, 15)) < 0.5
    chosen[:, 0] = True
    expected = [np.median(row[keep]) for row, keep in zip(values, chosen, strict=True)]
    np.testing.assert_allclose(masked_median(values, chosen), expected)


def test_nodes_without_a_value_are_held_at_the_median_of_the_others() -> None:
    values = np.array([10.0, NAN, 30.0, 70.0, 99.0])
    held = neutral_where_missing(values, mask(1, 1, 1, 1, 1), mask(0, 0, 0, 0, 1))
    assert held.tolist() == [10.0, 30.0, 30.0, 70.0, 30.0]


def test_held_nodes_are_never_best_and_never_worst() -> None:
    rng = np.random.default_rng(0)
    values, candidates = rng.normal(size=(100, 12)), np.ones((100, 12), dtype=np.bool_)
    missing = rng.random((100, 12)) < 0.3
    missing[:, :3] = False
    held = neutral_where_missing(values, candidates, missing)
    others_max = np.where(missing, -INF, values).max(axis=-1, keepdims=True)
    others_min = np.where(missing, INF, values).min(axis=-1, keepdims=True)
    assert ((held < others_max) & (held > others_min))[missing].all()


def test_nodes_that_are_no_candidates_do_not_move_the_median() -> None:
    held = neutral_where_missing(np.array([1.0, NAN, 3.0, 1000.0]), mask(1, 1, 1, 0), mask(0, 0, 0, 0))
    assert held[1] == 2.0


def test_values_stay_as_they_are_when_nothing_is_missing() -> None:
    values = np.array([1.0, 2.0, NAN])
    assert neutral_where_missing(values, mask(1, 1, 0), mask(0, 0, 1)) is values
