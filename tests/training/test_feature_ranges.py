import numpy as np
import pytest

from agent.features import NODE_FEATURES, POD_FEATURES, Encoding
from agent.linear import LinearScorer
from models.manifest import FeatureRange
from training.feature_ranges import FeatureRecorder, Recording, widest

FIRST_NODE, FIRST_POD = next(iter(NODE_FEATURES)), next(iter(POD_FEATURES))


def an_encoding(nodes, pod):
    """Every feature of a node, and of the pod, has the number given for it."""
    nodes, pod = np.asarray(nodes, dtype=np.float32), np.asarray(pod, dtype=np.float32)
    return Encoding(
        np.repeat(nodes[..., None], len(NODE_FEATURES), axis=-1), np.repeat(pod[..., None], len(POD_FEATURES), axis=-1)
    )


def test_least_and_greatest_values_are_those_of_candidates():
    recorder = FeatureRecorder()
    recorder.see(an_encoding([[1, 2, 99], [-99, 4, 5]], [7, 8]), np.array([[1, 1, 0], [0, 1, 1]], dtype=bool))
    seen = recorder.node_ranges[FIRST_NODE]
    assert (seen.min, seen.max) == (1.0, 5.0)
    assert (recorder.pod_ranges[FIRST_POD].min, recorder.pod_ranges[FIRST_POD].max) == (7.0, 8.0)


def test_a_cluster_without_a_candidate_does_not_count():
    recorder = FeatureRecorder()
    recorder.see(an_encoding([[1, 2], [3, 4]], [5, 99]), np.array([[1, 1], [0, 0]], dtype=bool))
    assert recorder.pod_ranges[FIRST_POD].max == 5.0


def test_one_cluster_is_seen_like_a_batch_of_one():
    recorder = FeatureRecorder()
    recorder.see(an_encoding([1, 2], 3), np.array([True, True]))
    assert recorder.pod_ranges[FIRST_POD].min == 3.0


@pytest.mark.parametrize("rows_kept", [100_000, 20_000])
def test_percentiles_are_those_of_all_that_was_seen(rows_kept):
    rng, recorder = np.random.default_rng(0), FeatureRecorder(rows_kept=rows_kept)
    values = np.arange(100_000.0)
    rng.shuffle(values)
    for part in np.split(values, 10):
        recorder.see(an_encoding(part[None], [0.0]), np.ones((1, len(part)), dtype=bool))
    seen = recorder.node_ranges[FIRST_NODE]
    assert (seen.min, seen.max) == (0.0, 99_999.0)
    assert seen.low == pytest.approx(100.0, abs=1.5 if rows_kept == 100_000 else 60)
    assert seen.high == pytest.approx(99_899.0, abs=1.5 if rows_kept == 100_000 else 60)


def test_rows_seen_late_are_sampled_like_early_ones():
    recorder = FeatureRecorder(rows_kept=1000)
    for number in range(100):
        recorder.see(an_encoding([[number] * 100], [0.0]), np.ones((1, 100), dtype=bool))
    kept = recorder._nodes._rows[:, 0]
    assert len(kept) == 1000
    assert kept.mean() == pytest.approx(49.5, abs=3.0)


def test_nothing_seen_is_a_clear_error():
    with pytest.raises(ValueError, match="no features were seen"):
        FeatureRecorder().node_ranges  # noqa: B018


def test_playing_with_a_recording_scorer_records_and_answers_as_the_scorer():
    recorder = FeatureRecorder()
    scorer = LinearScorer(np.ones(len(NODE_FEATURES)))
    recording = Recording(scorer, recorder)
    encoding, every = an_encoding([[1, 2]], [3]), np.ones((1, 2), dtype=bool)
    np.testing.assert_array_equal(recording.rate(encoding, every), scorer.rate(encoding, every))
    assert recorder.node_ranges[FIRST_NODE].max == 2.0
    assert recording.name == scorer.name


def test_the_range_of_several_worlds_is_the_widest_of_each_end():
    calm = {"a": FeatureRange(min=0.0, low=0.1, high=0.4, max=0.5)}
    wild = {"a": FeatureRange(min=-1.0, low=0.2, high=0.9, max=3.0)}
    assert widest([calm, wild]) == {"a": FeatureRange(min=-1.0, low=0.1, high=0.9, max=3.0)}
