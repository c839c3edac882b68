from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib import image

from agent.errors import InputError
from agent.heuristics.registry import scorer_by_name
from envs.dynamics.costs import TERM, TERMS
from envs.dynamics.world import World
from envs.rewards import weighted_cost
from envs.viewer import (
    MOST_COLUMNS,
    OVER,
    EpisodeFrames,
    _columns,
    best_node,
    draw_episode,
    figure_of,
    record_episode,
)
from envs.workloads.scenario import Scraping, Span, load_scenario
from envs.workloads.synthetic import make_tape


@pytest.fixture(scope="module")
def tape():
    scenario = load_scenario("microservices")
    update = {
        "nodes": scenario.nodes.model_copy(update={"count": Span(low=4, high=4), "maintenance": 0.5}),
        "scraping": Scraping(interval_s=[10.0], window_s=[20.0], delay_s=[0.0]),
        "horizon_s": 120.0,
        "tick_s": 1.0,
    }
    return make_tape(scenario.model_copy(update=update), 1, 0)


@pytest.fixture(scope="module")
def frames(tape):
    return record_episode(tape, scorer_by_name("least_allocated"))


def played(tape):
    """The same episode without a recorder."""
    world, rng, terms, placed = World(tape), np.random.default_rng(0), [], []
    while not world.done:
        clock_s, pod = world.clock_s, world.pod
        terms.append(world.step(best_node(scorer_by_name("least_allocated"), world, rng)))
        placed.append((clock_s, pod))
    return world, np.array(terms), placed


class TestRecording:
    def test_has_a_column_for_every_tick_and_a_row_for_every_node(self, frames):
        np.testing.assert_array_equal(frames.time_s, np.arange(120.0))
        assert frames.share.shape == (3, 120, 4)
        assert frames.schedulable.shape == (120, 4)
        assert (frames.share >= 0).all()

    def test_recording_changes_nothing(self, tape, frames):
        world, terms, placed = played(tape)
        assert frames.total_usd == pytest.approx(float(weighted_cost(terms).sum()))
        assert frames.cost_at_s[-1] == world.clock_s
        np.testing.assert_array_equal(frames.decided_at_s, [clock_s for clock_s, _ in placed])

    def test_shares_are_the_loads_over_the_capacity(self, tape, frames):
        world, _, _ = played(tape)
        loads = world.last_loads
        np.testing.assert_allclose(frames.share[0, -1], loads.cpu_millicores / tape.node_cpu_millicores)
        np.testing.assert_allclose(frames.share[1, -1], loads.memory_mib / tape.node_memory_mib)
        np.testing.assert_allclose(frames.share[2, -1], np.maximum(loads.rx_mbps, loads.tx_mbps) / tape.node_nic_mbps)

    def test_maintenance_is_kept(self, tape, frames):
        under = (tape.node_maintenance_start_s <= 60.0) & (tape.node_maintenance_end_s > 60.0)
        np.testing.assert_array_equal(~frames.schedulable[60], under)
        assert not frames.schedulable.all()

    def test_progress_rises_to_one(self, tape):
        told = []
        record_episode(tape, scorer_by_name("least_allocated"), progress=told.append)
        assert told == sorted(told)
        assert told[-1] == 1.0

    def test_a_tape_without_decisions_is_refused(self, tape):
        with pytest.raises(InputError, match="there is nothing to record"):
            record_episode(replace(tape, horizon_s=np.asarray(5.0)), scorer_by_name("least_allocated"))

    def test_overload_is_counted_by_node_and_second(self, frames):
        share = np.zeros_like(frames.share)
        share[2, 10:15, 1] = 1.2
        share[0, 3, :2] = 1.0  # full is not overloaded
        np.testing.assert_allclose(replace(frames, share=share).overloaded_node_s(), [0.0, 0.0, 5.0])


class TestChoice:
    def test_equal_scores_are_told_apart_at_random_among_the_candidates(self, tape):
        world, rng = World(tape), np.random.default_rng(0)
        chosen = {best_node(scorer_by_name("neutral"), world, rng) for _ in range(60)}
        assert chosen == set(np.flatnonzero(world.candidates()).tolist())

    def test_the_best_candidate_is_chosen(self, tape):
        world, scorer = World(tape), scorer_by_name("least_allocated")
        values = scorer.score(world.state(), world.demand(), world.candidates())
        allowed = np.where(world.candidates(), values, -np.inf)
        assert best_node(scorer, world, np.random.default_rng(0)) == np.argmax(allowed)


class TestColumns:
    def test_one_overloaded_tick_colours_its_column_however_many_share_it(self):
        share = np.full((10 * MOST_COLUMNS, 2), 0.25)
        share[4321, 1] = 1.01
        cells = _columns(share, np.ones(share.shape, dtype=bool))
        assert cells.shape == (MOST_COLUMNS, 2)
        assert np.argwhere(cells == OVER).tolist() == [[432, 1]]
        assert np.median(cells) == 0.25

    def test_maintenance_leaves_a_gap(self):
        there = np.ones((5, 1), dtype=bool)
        there[2] = False
        assert np.isnan(_columns(np.zeros((5, 1)), there)).ravel().tolist() == [False, False, True, False, False]


class TestDrawing:
    def test_writes_a_picture(self, frames, tmp_path):
        draw_episode(frames, tmp_path / "episode.png")
        picture = image.imread(tmp_path / "episode.png")
        assert min(picture.shape[:2]) > 500
        assert picture[..., :3].std() > 0.05

    def test_unknown_ending_is_refused_with_the_choices(self, frames, tmp_path):
        with pytest.raises(InputError, match=r"'episode.gif': the name must end with one of .pdf, .png, .svg"):
            draw_episode(frames, tmp_path / "episode.gif")

    def test_headline_names_the_policy_its_cost_and_the_overload(self, frames):
        share = frames.share.copy()
        share[0, :7, 0] = 2.0
        title = figure_of(replace(frames, share=share))._suptitle.get_text()
        assert title.startswith(f"least_allocated: {len(frames.bound_node)} placements, {frames.total_usd:.3g} $")
        assert "CPU 7" in title

    def test_marks_stand_on_the_rows_of_their_nodes_grouped_by_zone(self, frames):
        one = replace(
            frames, zone=np.array([1, 0, 1, 0]), decided_at_s=np.array([50.0, 60.0]), bound_node=np.array([0, 3])
        )
        panel = figure_of(one).axes[0]
        marks = panel.lines[0]
        assert marks.get_xydata().tolist() == [[50.0, 2.0], [60.0, 1.0]]
        assert [label.get_text() for label in panel.get_yticklabels()] == ["zone 0", "zone 1"]

    def test_terms_are_stacked_by_size_and_small_ones_share_a_layer(self, frames: EpisodeFrames):
        cost_usd = np.zeros((len(frames.cost_at_s), len(TERMS)))
        cost_usd[0, [TERM["money"], TERM["cross_zone"], TERM["energy"], TERM["failures"]]] = 3.0, 5.0, 0.01, 0.02
        legend = figure_of(replace(frames, cost_usd=cost_usd)).axes[3].get_legend()
        shown = [text.get_text() for text in legend.get_texts()]
        assert shown == ["2 others: 0.03 $", "money: 3 $", "cross_zone: 5 $"]
