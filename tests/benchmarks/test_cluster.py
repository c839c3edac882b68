"""The closed loop's bars, tapes and page; the loop itself runs in tests/cluster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from agent.errors import InputError
from agent.heuristics.registry import scorer_by_name
from benchmarks import cluster
from benchmarks.closed_loop import episodes, kept, page
from benchmarks.closed_loop.clairvoyant import plan
from benchmarks.closed_loop.outcome import HARMS, Outcome, means, summed
from benchmarks.closed_loop.page import Results, write_page
from benchmarks.closed_loop.simulated import (
    BesidePlugin,
    InTree,
    MeteredWorld,
    as_a_sidecar_knows_it,
    ladder_of,
    simulate,
    simulate_often,
)
from benchmarks.report import Origin
from tests.cluster.metering import Meter

ORIGIN = Origin("2026-01-02", "abc", 2)
SHORT_S = 250.0  # the first burst comes within it


def outcome(lost: float, cross_zone: float = 10.0, **rest) -> Outcome:
    """Of 100 Mbit offered and sent, 100 core-seconds wanted, 100 node-seconds."""
    meter = Meter(100.0, lost, 1.0, 100.0, cross_zone, 100.0, 2.0)
    return Outcome(meter, 100.0, [0.1, 0.3], 2, 10.0, **rest)


def results(policy: Outcome, simulated: Outcome) -> Results:
    real = {"default": [outcome(4.0)], "network_traffic": [outcome(8.0)], "policy": [policy]}
    arms = dict.fromkeys(real, "somebody")
    said = {name: [[simulated]] for name in real}
    return Results(ORIGIN, arms, real, said, planned=[outcome(0.5).meter], load_average=1.0)


def by_name(found) -> dict[str, float]:
    return {bar.bar: bar.value for bar in found}


def test_bars_compare_the_policy_with_the_default_scheduler_network_traffic_and_the_simulator():
    policy = outcome(1.0, first_choices=[True, True, True, False], sources={"policy": 4})
    found = by_name(cluster.bars(results(policy, simulated=outcome(1.5))))
    assert found == {
        "lost_traffic_over_default": pytest.approx(0.25),
        "lost_traffic_over_network_traffic": pytest.approx(0.125),
        "harms_above_default": 0,
        "first_choice_share": 0.75,
        "simulator_gap_largest_share": pytest.approx(0.5),
    }


def test_numbers_of_every_arm_and_the_simulators_word_are_kept_with_the_bars():
    policy = outcome(1.0, first_choices=[True], sources={"policy": 1})
    found = {bar.bar: bar.beside for bar in cluster.bars(results(policy, simulated=outcome(1.5)))}
    arms = found["harms_above_default"]["arms"]
    assert arms.keys() == {"default", "network_traffic", "policy"}
    assert arms["network_traffic"] == {
        "episodes": 1,
        "measured": {
            "overload_share": 0.01,
            "lost_share": 0.08,
            "cross_zone_share": 0.1,
            "throttled_share": 0.02,
            "overload_node_s": 1.0,
            "pending_p50_ms": 200.0,
            "pending_p99_ms": 298.0,
            "pods_per_s": 0.2,
        },
        "simulated": {
            "overload_share": 0.01,
            "lost_share": 0.015,
            "cross_zone_share": 0.1,
            "throttled_share": 0.02,
            "overload_node_s": 1.0,
        },
        "gaps": {
            "overload_share": 0.0,
            "lost_share": 0.8125,
            "cross_zone_share": 0.0,
            "throttled_share": 0.0,
        },
    }
    gap = found["simulator_gap_largest_share"]
    assert (gap["of"], gap["gap_of_network_traffic"]) == ("lost_share", "0.812 (lost_share)")


def test_an_arm_that_bound_no_pod_is_kept_as_json_can_hold_it():
    nobody = replace(outcome(1.0), pending_s=[])
    bars = list(cluster.bars(results(nobody, simulated=outcome(1.5))))
    arms = next(bar.beside["arms"] for bar in bars if bar.bar == "harms_above_default")
    assert arms["policy"]["measured"]["pending_p99_ms"] is None


@pytest.mark.parametrize(("cross_zone", "above"), [(10.9, 0), (11.1, 1)])
def test_a_harm_is_above_the_default_only_beyond_a_tenth_and_half_a_point(cross_zone, above):
    policy = outcome(1.0, cross_zone=cross_zone)
    assert by_name(cluster.bars(results(policy, simulated=outcome(1.0))))["harms_above_default"] == above


def test_episodes_weigh_by_what_happened_in_them():
    small, large = outcome(50.0), outcome(0.0)
    large = replace(large, meter=replace(large.meter, offered_mbit=900.0))
    both = summed([small, large])
    assert both.harms["lost_share"] == pytest.approx(0.05)
    assert (both.arrived, both.unbound, both.wall_s) == (4, 0, 20.0)


def test_at_most_a_fifth_of_the_pods_is_annotated_and_no_sibling_traffic_is_declared():
    for episode in range(3):
        tape = episodes.tape_of("bursts", episode)
        assert 0 < (~np.isnan(tape.pod_annotated_mbps)).mean() <= episodes.ANNOTATED_SHARE
        assert not tape.app_sibling_declared.any()


def test_episodes_are_chosen_by_their_tape_alone():
    tape = episodes.tape_of("bursts", 3)
    assert episodes.is_fair(tape)
    assert not episodes.is_fair(replace(tape, node_nic_mbps=100.0 * tape.node_nic_mbps))  # nothing is at stake
    nodes = np.where(np.arange(tape.pod_slots) < tape.pod_initial.sum(), 0.0, tape.pod_start)
    assert not episodes.is_fair(replace(tape, pod_start=nodes))  # all that run already stand on the first nodes


def test_the_clairvoyant_planner_loses_less_than_who_has_to_guess():
    tape = episodes.first_tapes("bursts", 1)[0]
    lost = {"planner": plan(tape).lost_share, "default": simulate(InTree(), tape).harms["lost_share"]}
    assert lost["planner"] < 0.5 * lost["default"]


def test_the_simulated_likeness_is_measured_by_the_same_meter_as_the_loop():
    tape = episodes.tape_of("bursts", 4, SHORT_S)
    spread, with_policy = simulate(InTree(), tape), simulate(ladder_of(with_policy=True), tape)
    assert spread.meter.offered_mbit > 0
    assert spread.harms != with_policy.harms


def test_what_no_label_says_the_simulated_sidecar_does_not_know_and_the_meter_does_not_need():
    tape = episodes.tape_of("bursts", 4, SHORT_S)
    known = as_a_sidecar_knows_it(tape)
    states = [MeteredWorld(each).state() for each in (tape, known)]
    assert np.isfinite(states[0].user_latency_ms).all()
    assert np.isnan(states[1].user_latency_ms).all()
    assert not np.allclose(states[0].zone_rtt_ms, states[1].zone_rtt_ms)
    assert simulate(InTree(), known).harms == simulate(InTree(), tape).harms


def test_the_simulator_says_what_it_says_over_several_moments_of_the_scrapes():
    tape = episodes.tape_of("bursts", 4, 450.0)  # long enough for a moment to matter
    often = simulate_often(ladder_of(), tape)
    once = simulate(ladder_of(), tape)
    assert [each.node_s for each in often] == [once.node_s] * 5
    assert len({tuple(each.harms.values()) for each in often}) > 1


def test_chance_is_what_the_simulator_says_if_it_plays_once():
    twice = [[outcome(1.0), outcome(3.0)], [outcome(2.0), outcome(2.0)]]  # two episodes, two times each
    real = {"policy": [outcome(4.0), outcome(4.0)]}
    planned = [outcome(0.5).meter] * 2
    found = Results(ORIGIN, {"policy": "we"}, real, {"policy": twice}, planned, load_average=1.0)
    assert found.said("policy").harms["lost_share"] == pytest.approx(0.02)
    assert found.chance("policy")["lost_share"] == pytest.approx((0.015, 0.025))
    assert found.gaps("policy")["lost_share"] == pytest.approx(0.5)


def test_plugins_of_others_are_simulated_with_the_spreading_of_kube_scheduler():
    world = MeteredWorld(episodes.tape_of("bursts", 4, SHORT_S))
    state, mask, nodes = world.state(), world.mask, np.arange(world.nodes)
    here, there = np.flatnonzero(mask)[:2]
    demand = replace(world.demand(), siblings_on_node=2.0 * (nodes == here), siblings_in_zone=np.zeros(world.nodes))
    alone = scorer_by_name("target_load_packing")
    added = BesidePlugin(alone, 1.0, balanced=False).score(state, demand, mask) - alone.score(state, demand, mask)
    assert added[here] < added[there]


def test_network_overhead_looks_only_at_pods_that_talk_to_their_siblings():
    tape = episodes.tape_of("bursts", 4, SHORT_S)
    rule = BesidePlugin(scorer_by_name("network_overhead"), 5.0, balanced=True, talkers_only=True)
    silent, loud = (
        MeteredWorld(replace(tape, app_sibling_mbps=np.full_like(tape.app_sibling_mbps, mbps))) for mbps in (0.0, 10.0)
    )
    assert rule.for_pod_of(silent).weight == 0.0
    assert rule.for_pod_of(loud) == rule


def test_what_was_measured_at_a_commit_is_not_measured_again(monkeypatch, tmp_path):
    monkeypatch.setattr(kept, "FOLDER", tmp_path)
    first = kept.Kept("abc", "bursts", 10.0)
    first.keep("policy", 0, outcome(1.0, sources={"policy": 2}))
    again = kept.Kept("abc", "bursts", 10.0)
    assert again.has("policy", 0)
    assert again.get("policy", 0) == outcome(1.0, sources={"policy": 2})
    assert not kept.Kept("abc", "bursts", 5.0).has("policy", 0)  # at another speed it is another measurement
    assert not kept.Kept("abc", "autoscaled", 10.0).has("policy", 0)
    assert not kept.Kept("abc-dirty", "bursts", 10.0).has("policy", 0)


def test_page_shows_every_arm_with_the_simulators_word_and_a_picture(tmp_path):
    found = results(outcome(1.0, first_choices=[True], sources={"policy": 1}), simulated=outcome(2.0))
    tapes = [episodes.tape_of("bursts", 0)]
    text = write_page(found, tapes, 10.0, docs=tmp_path).read_text()
    assert "`pilotfish benchmark cluster`: 2026-01-02, commit abc, 2 cores;" in text
    assert "| `policy` | 1 | 1 | 1.00 % (1.00 %, 1.00 to 1.00; 0%) | 1.00 % (2.00 %, 2.00 to 2.00; 100%) |" in text
    assert "| `policy` | 200 | 298 | 0.2 | 0 | 100.0% | policy 1 |" in text
    assert "| `policy` | 1.00 % (2.00 %) |" in text
    assert "| clairvoyant planner | (0.50 %) |" in text
    assert write_page(found, tapes, 10.0, "autoscaled", docs=tmp_path).name == "cluster_autoscaled.md"
    assert (tmp_path / "benchmarks" / page.PICTURE).stat().st_size > 1000


def test_the_picture_has_a_panel_for_all_that_is_measured(monkeypatch, tmp_path):
    drawn, fill = [], page._fill

    def noting(panel, found, name, scale):
        drawn.append(name)
        fill(panel, found, name, scale)

    monkeypatch.setattr(page, "_fill", noting)
    page._draw(results(outcome(1.0), simulated=outcome(2.0)), tmp_path / "picture.png")
    assert drawn == [*means([outcome(1.0)])]
    assert len(HARMS) == 4


def test_the_run_asks_which_code_it_is_before_it_plays(monkeypatch):
    """A picture that is written again makes the tree another."""
    asked = []
    monkeypatch.setenv(cluster.ARMS_VARIABLE, cluster.BARS_ALONE)
    monkeypatch.setattr(cluster, "origin", lambda: asked.append("origin") or ORIGIN)
    monkeypatch.setattr(cluster, "first_tapes", lambda scenario, episodes: [])
    monkeypatch.setattr(cluster, "_play", lambda *_: asked.append("play"))
    monkeypatch.setattr(cluster, "_results", lambda began, *_: began)
    monkeypatch.setattr(cluster, "write_page", lambda *_: asked.append("page"))
    assert cluster._full_results() is ORIGIN
    assert asked == ["origin", "play", "page"]


def test_without_the_peers_one_line_says_what_builds_them(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(InputError, match="scheduler-plugins is not built yet: run `make peers`"):
        next(iter(cluster.run(quick=False, traces=None)))
