"""Generated worlds: reproducible, paired, and as loaded as the scenario says."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from envs.workloads.carrying import asked_mbps, largest_pods_mbps
from envs.workloads.scenario import load_scenario, parse_scenario, scenario_names
from envs.workloads.synthetic import GENERATOR_VERSION, make_tape, make_tapes, sizes_of
from envs.workloads.tape import Tape
from tests.tapes import different

WORLD = ("node_", "zone_", "app_sibling")  # what the cluster is, whatever comes


@pytest.fixture(scope="module")
def scenario(tiny_scenario):
    return tiny_scenario(nodes={"count": {"low": 3, "high": 6}}, gpus={"share": 0.5}, apps={"latency_limited": 0.5})


def test_same_seed_and_index_give_the_same_tape_whatever_ran_before(scenario):
    first = make_tape(scenario, 5, 2)
    for index in range(4):
        make_tape(scenario, 5, index)
        make_tape(scenario, 6, index)
    np.random.default_rng().random(100)
    assert different(first, make_tape(scenario, 5, 2)) == set()


def test_stack_holds_the_tapes_of_its_indices(scenario):
    stacked = make_tapes(scenario, 5, [2, 0])
    tape = make_tape(scenario, 5, 2)
    np.testing.assert_array_equal(stacked.pod_rx_mbps[0, : tape.pod_slots], tape.pod_rx_mbps)
    np.testing.assert_array_equal(stacked.node_zone[0, : tape.node_slots], tape.node_zone)


@pytest.mark.parametrize("other", [(5, 3), (6, 2)])
def test_other_seed_or_index_gives_another_world(scenario, other):
    changed = different(make_tape(scenario, 5, 2), make_tape(scenario, *other))
    assert changed >= {"pod_arrival_s", "pod_rx_mbps", "app_load", "node_user_latency_ms", "pod_duration_s"}


def test_seed_and_index_are_not_interchangeable(scenario):
    assert different(make_tape(scenario, 1, 2), make_tape(scenario, 2, 1))


def test_another_future_moves_otherwise_about_the_same_background(tiny_scenario):
    still = tiny_scenario(loads={"background_sigma": 0})
    now, later = make_tape(still, 5, 2), make_tape(still, 5, 2, future=3)
    np.testing.assert_array_equal(now.background_cpu_ratio, later.background_cpu_ratio)
    np.testing.assert_array_equal(now.background_rx_ratio, later.background_rx_ratio)
    moving = tiny_scenario()
    assert "background_cpu_ratio" in different(make_tape(moving, 5, 2), make_tape(moving, 5, 2, future=3))


def test_another_future_asks_the_same_of_its_nics(tiny_scenario):
    full = tiny_scenario(apps={"external_mbps": {"median": 900, "sigma": 1.0}})
    now, later = make_tape(full, 5, 2), make_tape(full, 5, 2, future=3)
    np.testing.assert_array_equal(now.app_sibling_mbps, later.app_sibling_mbps)
    assert now.pod_rx_mbps[0] < make_tape(roomy(full), 5, 2).pod_rx_mbps[0]  # it was scaled down at all


@pytest.mark.parametrize("name", ["bursts", "overload"])
def test_no_cluster_is_asked_for_more_than_its_nics_were_made_for(name):
    """Else traffic is lost whoever schedules, and such an episode outweighs all others."""
    scenario, scaled = load_scenario(name), 0
    for index in range(12):
        tape = make_tape(scenario, 5, index)
        asked = max((pods + beside).max() for pods, beside in asked_mbps(vars(tape)))
        assert asked <= 0.8 * tape.node_nic_mbps.sum() * 1.001
        assert largest_pods_mbps(vars(tape)).max() <= 0.8 * tape.node_nic_mbps.max() * 1.001
        scaled += bool(asked > 0.79 * tape.node_nic_mbps.sum())
    assert scaled < 12, "only what is too much is scaled down"
    assert scaled > 0 or name != "bursts"


def test_traffic_that_fits_is_left_alone(tiny_scenario):
    calm = tiny_scenario(apps={"external_mbps": {"median": 1, "sigma": 0.1}, "chatty": 0})
    assert different(make_tape(calm, 5, 2), make_tape(roomy(calm), 5, 2)) == set()


def roomy(scenario):
    """The same world, whatever it is asked for."""
    return scenario.model_copy(update={"loads": scenario.loads.model_copy(update={"network_peak": 1e9})})


GOLDEN = Path(__file__).parent / "golden"


def test_generator_version_rises_when_the_same_seed_gives_another_tape(scenario):
    """Results name the version: without it, two worlds would go by one name. The record holds its whole scenario."""
    file = GOLDEN / f"tape_v{GENERATOR_VERSION}.json"
    if os.environ.get("PILOTFISH_WRITE_GOLDEN") and not file.exists():
        record = {"scenario": scenario.model_dump(mode="json"), "sums": sums_of(make_tape(scenario, 5, 2))}
        file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    message = (
        f"tapes are not those of version {GENERATOR_VERSION} any more: raise GENERATOR_VERSION in"
        " envs/workloads/synthetic.py and run this test once with PILOTFISH_WRITE_GOLDEN=1"
    )
    assert file.exists(), message
    kept = json.loads(file.read_text(encoding="utf-8"))
    tape = make_tape(parse_scenario(kept["scenario"], file.name), 5, 2)
    assert sums_of(tape) == pytest.approx(kept["sums"], rel=1e-5), message


def sums_of(tape: Tape) -> dict[str, float]:
    return {column.name: sum_of(getattr(tape, column.name)) for column in fields(Tape)}


def sum_of(values: np.ndarray) -> float:
    """Of what is finite, each value with a weight of its own, so that another order is another sum."""
    flat = np.nan_to_num(values.astype(np.float64).ravel(), posinf=0.0)
    return float(flat @ np.linspace(1.0, 2.0, flat.size))


def test_another_future_is_the_same_cluster_with_other_arrivals(scenario):
    changed = different(make_tape(scenario, 5, 2), make_tape(scenario, 5, 2, future=1))
    assert changed >= {"pod_arrival_s", "pod_app", "pod_duration_s", "app_load", "background_cpu_ratio"}
    assert not {name for name in changed if name.startswith(WORLD)}
    assert not changed & {"scrape_interval_s", "scrape_delay_s", "rate_window_s", "pod_metrics", "load_step_s"}


@pytest.mark.parametrize("name", scenario_names())
def test_tapes_of_every_scenario_fit_its_sizes(name):
    scenario = load_scenario(name)
    stacked, sizes = make_tapes(scenario, 0, range(4)), sizes_of(scenario)
    assert (stacked.node_slots, stacked.pod_slots, stacked.app_slots) == (sizes.nodes, sizes.pods, sizes.apps)
    assert np.isfinite(stacked.pod_arrival_s).any(axis=1).all()
    assert (stacked.pod_arrival_s[np.isfinite(stacked.pod_arrival_s)] <= scenario.horizon_s + 2.0).all()


def test_even_a_short_episode_has_one_whole_round_of_deployments(tiny_scenario):
    scenario = tiny_scenario(arrivals={"deployments": 30, "deployment_gap_s": 2}, horizon_s=40)
    assert make_tapes(scenario, 0, range(2)).pod_slots >= 30


def test_deployments_come_one_by_one_and_are_all_deleted_together(tiny_scenario):
    scenario = tiny_scenario(arrivals={"deployments": 5, "deployment_gap_s": 2}, horizon_s=100)
    tape = make_tape(scenario, 0)
    first = tape.pod_arrival_s[:5]
    np.testing.assert_allclose(np.diff(first), 2.0)
    np.testing.assert_allclose(first + tape.pod_duration_s[:5], first[0] + 10.0)
    assert tape.pod_arrival_s[5] == pytest.approx(first[0] + 20.0)


# --- calibration: what the scenario asks for is what comes, in the mean of many worlds


@pytest.fixture(scope="module")
def many(tiny_scenario):
    parts = {
        "nodes": {"nic_unknown": 0.3, "maintenance": 0.4},
        "apps": {"count": 40, "labelled": 0.6, "annotated": 0.3, "latency_limited": 0.5, "chatty": 0.5},
        "arrivals": {"load": {"low": 0.5, "high": 0.5}, "bursts": 0.0},
        "gpus": {"share": 0.4, "fractional": 0.5},
        "scraping": {"missing": 0.1, "blind": 0.0, "pod_metrics": 0.8},
        "binding": {"override": 0.2, "visible_after": 4},
        "horizon_s": 300,
    }
    return [make_tape(tiny_scenario(**parts), 0, index) for index in range(60)]


def share(many, column: str) -> float:
    return float(np.concatenate([np.ravel(getattr(tape, column)) for tape in many]).mean())


def test_pods_that_run_at_the_start_fill_the_cluster_as_the_scenario_says(many):
    filled = []
    for tape in many:
        initial = tape.pod_initial
        cpu = tape.pod_cpu_request_millicores[initial].sum() / tape.node_cpu_millicores.sum()
        memory = tape.pod_memory_request_mib[initial].sum() / tape.node_memory_mib.sum()
        filled.append(max(cpu, memory))
    assert np.mean(filled) == pytest.approx(0.5, abs=0.06)


def test_pods_come_as_fast_as_they_go_so_that_the_load_stays(many):
    """Little's law: what runs is arrivals a second times how long they stay."""
    ratios = []
    for tape in many:
        coming = tape.pod_arrival_s[~tape.pod_initial]
        span_s = float(tape.horizon_s - (tape.rate_window_s + tape.scrape_delay_s + 2 * tape.scrape_interval_s))
        ratios.append(len(coming) / span_s * 60 * np.exp(0.6**2 / 2) / tape.pod_initial.sum())
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    ("column", "expected"),
    [("node_nic_known", 0.7), ("pod_labelled", 0.6), ("scrape_missing", 0.1), ("pod_metrics", 0.8), ("app_load", 1.0)],
)
def test_shares_are_those_of_the_scenario(many, column, expected):
    assert share(many, column) == pytest.approx(expected, abs=0.1)


def test_annotations_overrides_limits_gpus_and_maintenance_are_as_common_as_asked(many):
    def common(condition) -> float:
        return float(np.concatenate([condition(tape) for tape in many]).mean())

    assert common(lambda tape: ~np.isnan(tape.pod_annotated_mbps)) == pytest.approx(0.3, abs=0.03)
    assert common(lambda tape: ~np.isnan(tape.pod_latency_soft_ms)) == pytest.approx(0.5, abs=0.1)
    assert common(lambda tape: tape.pod_override >= 0) == pytest.approx(0.2, abs=0.03)
    assert common(lambda tape: tape.pod_gpus > 0) == pytest.approx(0.4, abs=0.03)
    assert common(lambda tape: np.isfinite(tape.node_maintenance_start_s)) == pytest.approx(0.4, abs=0.1)
    assert common(lambda tape: tape.pod_visible_after) == pytest.approx(2.0, abs=0.1)


def test_no_pod_comes_before_the_metrics_can_be_there(many):
    for tape in many:
        assert tape.pod_arrival_s[~tape.pod_initial].min() >= tape.rate_window_s + tape.scrape_delay_s


def test_bursts_are_many_pods_of_one_app_within_two_seconds(tiny_scenario):
    parts = {"arrivals": {"bursts": 1.0, "burst_size": 20}, "apps": {"count": 40}, "horizon_s": 600}
    tape = make_tape(tiny_scenario(**parts), 3)
    app, arrival_s = tape.pod_app[~tape.pod_initial], tape.pod_arrival_s[~tape.pod_initial]
    together = [
        float(np.mean((np.abs(arrival_s - moment) <= 2.0) & (app == which)) * len(app))
        for moment, which in zip(arrival_s, app, strict=True)
    ]
    assert np.mean(together) > 10
