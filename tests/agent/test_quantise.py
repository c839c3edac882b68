from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from agent.quantise import quantise, quantise_percent

SCORES = st.floats(allow_nan=False, allow_infinity=True) | st.sampled_from([0.0, -0.0, 1.0, 50.0, 99.9, 100.0, 101.0])


@st.composite
def clusters(draw):
    """Scores of a batch of clusters, and which nodes are candidates."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=40))
    values = draw(hnp.arrays(np.float64, shape, elements=SCORES))
    return values, draw(hnp.arrays(np.bool_, shape))


both = pytest.mark.parametrize("quantiser", [quantise, quantise_percent])


def rows(levels, values, candidates):
    """The candidates of each cluster."""
    table = zip(np.atleast_2d(levels), np.atleast_2d(values), np.atleast_2d(candidates), strict=True)
    return [(level[mask], value[mask]) for level, value, mask in table if mask.any()]


@both
@given(clusters())
def test_levels_are_integers_of_the_declared_range(quantiser, cluster) -> None:
    values, candidates = cluster
    levels = quantiser(values, candidates)
    assert levels.shape == values.shape
    assert levels.dtype == np.int64
    assert ((levels >= 0) & (levels <= 10)).all()
    assert (levels[~candidates] == 0).all()


@both
@given(clusters())
def test_order_is_never_inverted_and_equals_stay_equal(quantiser, cluster) -> None:
    values, candidates = cluster
    for level, value in rows(quantiser(values, candidates), values, candidates):
        smaller = value[:, None] < value[None, :]
        assert (level[:, None] <= level[None, :])[smaller].all()
        assert (level[:, None] == level[None, :])[value[:, None] == value[None, :]].all()


@both
@given(clusters())
def test_a_unique_best_stays_alone_at_its_level(quantiser, cluster) -> None:
    values, candidates = cluster
    for level, value in rows(quantiser(values, candidates), values, candidates):
        assert ((level == level.max()) == (value == value.max())).all()


@both
@given(clusters())
def test_a_batch_is_quantised_as_its_clusters_one_by_one(quantiser, cluster) -> None:
    values, candidates = cluster
    levels = np.atleast_2d(quantiser(values, candidates))
    for level, value, mask in zip(levels, np.atleast_2d(values), np.atleast_2d(candidates), strict=True):
        assert level.tolist() == quantiser(value, mask).tolist()


@given(clusters())
def test_the_best_of_an_order_is_ten(cluster) -> None:
    values, candidates = cluster
    for level, _ in rows(quantise(values, candidates), values, candidates):
        assert level.max() == 10


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        ([7.0], [10]),
        ([1.0, 2.0], [0, 10]),
        ([3.0, 3.0, 3.0], [10, 10, 10]),
        ([1.0, 2.0, 3.0], [0, 3, 10]),  # ceil(10 ln 2 / ln 3) = 7
        ([-900.0, 99.0, 99.1, 99.2], [0, 2, 5, 10]),  # an outlier changes nothing: ln 2 / ln 4 = 1/2
        ([5.0, 5.0, 1.0, 1.0], [10, 10, 2, 2]),
    ],
)
def test_golden_levels_by_order(values, levels) -> None:
    assert quantise(np.array(values), np.ones(len(values), dtype=np.bool_)).tolist() == levels


def test_twenty_nodes_get_the_levels_of_the_document() -> None:
    levels = quantise(-np.arange(20.0), np.ones(20, dtype=np.bool_))
    assert levels.tolist() == [10, 7, 6, 5, 4, 4, 3, 3, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0]


def test_a_whole_ratio_is_not_lifted_by_rounding() -> None:
    levels = quantise(-np.arange(196.0), np.ones(196, dtype=np.bool_))
    assert levels[13] == 5  # ln 14 / ln 196 is 1/2, but not in floating point


@both
@pytest.mark.parametrize("nodes", [1, 2, 11, 12, 1000, 5000])
def test_any_number_of_nodes_keeps_order_and_a_single_best(quantiser, nodes) -> None:
    values = np.random.default_rng(nodes).uniform(0, 100, nodes)
    levels = quantiser(values, np.ones(nodes, dtype=np.bool_))
    assert (np.diff(levels[values.argsort()]) >= 0).all()
    assert (levels == levels.max()).sum() == 1
    assert levels[values.argmax()] == levels.max()


@both
def test_nan_counts_as_the_median_and_is_never_best(quantiser) -> None:
    values = np.array([10.0, 30.0, np.nan, 50.0, np.nan])
    with_median = np.array([10.0, 30.0, 30.0, 50.0, 30.0])
    everyone = np.ones(5, dtype=np.bool_)
    assert quantiser(values, everyone).tolist() == quantiser(with_median, everyone).tolist()


@both
def test_only_nan_gives_equal_levels(quantiser) -> None:
    levels = quantiser(np.full(4, np.nan), np.ones(4, dtype=np.bool_))
    assert len(set(levels.tolist())) == 1


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        ([60.0, 94.0, 100.0], [6, 9, 10]),
        ([91.0, 94.0], [9, 10]),  # the best moves up to stay alone
        ([100.0, 120.0], [9, 10]),  # the others move down
        ([55.0, 55.0, 51.0], [6, 6, 5]),
        ([-20.0, 5.0], [0, 1]),
    ],
)
def test_golden_levels_of_percent(values, levels) -> None:
    assert quantise_percent(np.array(values), np.ones(len(values), dtype=np.bool_)).tolist() == levels


def _by_value(values):
    levels = np.floor(10 * (values - values.min()) / np.ptp(values))
    return np.where(values == values.max(), 10, np.minimum(levels, 9))


def _by_equal_groups(values):
    return np.floor(10 * values.argsort().argsort() / (len(values) - 1))


def test_first_choice_survives_other_plugins_more_often_than_by_value_or_by_equal_groups() -> None:
    """What the module says of its design: normal scores of 200 nodes, others' scores as noise of two levels."""
    rng = np.random.default_rng(5)
    everyone, kept = np.ones(200, dtype=np.bool_), np.zeros(3)
    for _ in range(300):
        values, others = rng.normal(size=200), rng.normal(0.0, 2.0, 200)
        forms = (quantise(values, everyone), _by_value(values), _by_equal_groups(values))
        kept += [np.argmax(levels + others) == values.argmax() for levels in forms]
    assert kept[0] > 1.2 * max(kept[1:])


def test_five_thousand_nodes_take_a_few_milliseconds() -> None:
    values = np.random.default_rng(5).normal(size=5000)
    everyone = np.ones(5000, dtype=np.bool_)
    times_s = []
    for _ in range(20):
        start_s = time.perf_counter()
        quantise(values, everyone)
        times_s.append(time.perf_counter() - start_s)
    assert min(times_s) < 0.02  # measured: 0.5 ms; a loop over the nodes needs more than this
