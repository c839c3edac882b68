"""Tapes: what is refused by name, and how many become one stack."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from agent.errors import InputError
from envs.workloads.tape import AXES, MOST_DECISIONS_LATE, RING, Sizes, Tape, make, ring_length, stack

# --- what no cluster can be

CAPACITIES = ("node_cpu_millicores", "node_memory_mib", "node_nic_mbps")
AMOUNTS = (
    *("node_pods", "node_price_usd_per_hour", "node_power_idle_watts", "node_background_memory_mib"),
    *("node_user_latency_ms", "zone_rtt_ms", "app_sibling_mbps", "app_load", "background_rx_ratio"),
    *("pod_cpu_request_millicores", "pod_memory_request_mib", "pod_cpu_use_ratio", "pod_memory_use_ratio"),
    *("pod_rx_mbps", "pod_tx_mbps", "pod_duration_s", "scrape_delay_s"),
)


@pytest.mark.parametrize("bad", [np.nan, -1.0, np.inf])
@pytest.mark.parametrize("column", CAPACITIES + AMOUNTS)
def test_nan_negative_and_infinite_amounts_are_refused_by_name(hand_tape, column, bad):
    with pytest.raises(InputError, match=rf"^{column} must be a number .*, found {bad:g}"):
        hand_tape(**{column: bad})


@pytest.mark.parametrize("column", [*CAPACITIES, "tick_s", "load_step_s", "scrape_interval_s", "rate_window_s"])
def test_zero_is_refused_where_it_would_be_divided_by(hand_tape, column):
    with pytest.raises(InputError, match=f"^{column} must be a number above 0, found 0"):
        hand_tape(**{column: 0.0})


@pytest.mark.parametrize(
    ("column", "bad", "rule"),
    [
        ("node_zone", 3, "between 0 and 2"),
        ("node_gpus", 9, "between 0 and 8"),
        ("pod_app", 2, "between 0 and 1"),
        ("pod_app", -1, "between 0 and 1"),
        ("pod_gpus", 9, "between 0 and 8"),
        ("pod_gpu_milli", 1001, "between 0 and 1000"),
        ("pod_start", 1.5, "between 0 and 1"),
        ("pod_override", -2.0, "between -1 and 1"),
        ("pod_visible_after", MOST_DECISIONS_LATE + 1, "between 0 and 64"),
    ],
)
def test_what_would_lead_compiled_code_astray_is_refused(hand_tape, column, bad, rule):
    with pytest.raises(InputError, match=f"^{column} must be {rule}, found {bad:g}"):
        hand_tape(zones=3, apps=2, **{column: bad})


def test_column_of_another_length_is_refused(hand_tape):
    columns = {column.name: getattr(hand_tape(nodes=3), column.name) for column in fields(Tape)}
    with pytest.raises(InputError, match=r"^node_gpus has the shape \(2,\), where the other columns have 3 nodes"):
        make(**columns | {"node_gpus": [0, 0]})
    with pytest.raises(InputError, match=r"^tick_s has the shape \(1,\), where the other columns have one number"):
        make(**columns | {"tick_s": [1.0]})


@pytest.mark.parametrize("axis", ["nodes", "apps", "zones"])
def test_tape_without_nodes_apps_or_zones_is_refused(hand_tape, axis):
    with pytest.raises(InputError, match=f"without {axis}"):
        hand_tape(**{axis: 0})


def test_pods_must_be_in_the_order_of_their_arrival_and_initial_ones_first(hand_tape):
    with pytest.raises(InputError, match="pod_arrival_s must not fall"):
        hand_tape(pods=3, pod_arrival_s=[1.0, 3.0, 2.0])
    with pytest.raises(InputError, match="pod_arrival_s must not fall"):
        hand_tape(pods=2, pod_arrival_s=[np.inf, 2.0])
    with pytest.raises(InputError, match="pod_arrival_s must be a number"):
        hand_tape(pods=2, pod_arrival_s=[1.0, np.nan])
    with pytest.raises(InputError, match="pod_initial"):
        hand_tape(pods=2, pod_initial=[False, True])


def test_no_limit_no_annotation_no_maintenance_and_no_pod_are_allowed(hand_tape):
    tape = hand_tape(pods=2, pod_arrival_s=[1.0, np.inf], pod_annotated_mbps=np.nan, pod_latency_soft_ms=np.nan)
    assert np.isinf(tape.node_maintenance_start_s).all()


def test_window_that_holds_more_scrapes_than_are_kept_is_refused(hand_tape):
    tape = hand_tape(scrape_interval_s=10.0, rate_window_s=120.0, scrape_delay_s=30.0)
    assert ring_length(tape) == RING
    with pytest.raises(InputError, match=r"rate_window_s \+ scrape_delay_s span 17 scrapes, at most 16 are kept"):
        hand_tape(scrape_interval_s=10.0, rate_window_s=120.0, scrape_delay_s=31.0)


# --- many as one


def test_every_array_of_a_tape_has_named_axes():
    columns = {column.name for column in fields(Tape)}
    assert AXES.keys() <= columns
    numbers = {"load_step_s", "scrape_interval_s", "scrape_delay_s", "rate_window_s", "pod_metrics", "horizon_s"}
    assert columns - AXES.keys() == numbers | {"tick_s", "pending_timeout_s", "candidate_minimum"}


def test_stack_pads_with_nodes_without_capacity_and_pods_that_never_come(hand_tape):
    stacked = stack([hand_tape(nodes=2, pods=3), hand_tape(nodes=4, pods=1, zones=2, apps=3)])
    assert (stacked.node_slots, stacked.pod_slots, stacked.app_slots, stacked.zone_slots) == (4, 3, 3, 2)
    assert stacked.node_cpu_millicores[0].tolist() == [4000.0, 4000.0, 0.0, 0.0]
    assert stacked.pod_arrival_s[1].tolist() == [1.0, np.inf, np.inf]
    assert stacked.node_maintenance_start_s[0].tolist() == [np.inf] * 4
    assert stacked.scrape_missing[0, 0].tolist() == [False, False, True, True]


def test_shorter_series_goes_on_with_its_last_value(hand_tape, with_columns):
    short = hand_tape(app_load=np.arange(8.0)[:, None])
    long = hand_tape(app_load=np.arange(8.0)[:, None])
    steps = 11
    series = {name: np.full((steps, 2), 0.1) for name in AXES if name.startswith("background")}
    long = with_columns(long, app_load=np.full((steps, 1), 9.0), **series)
    assert stack([short, long]).app_load[0, :, 0].tolist() == [*range(8), 7, 7, 7]


def test_one_gives_a_tape_of_the_stack_back(hand_tape):
    made = [hand_tape(node_gpus=2), hand_tape(pod_rx_mbps=77.0)]
    for index, tape in enumerate(made):
        again = stack(made).one(index)
        for column in fields(Tape):
            np.testing.assert_array_equal(getattr(again, column.name), getattr(tape, column.name))


def test_stack_can_be_padded_to_given_sizes_but_not_cut(hand_tape):
    stacked = stack([hand_tape(nodes=2, pods=3)], Sizes(nodes=5, pods=9, apps=2, zones=3, steps=20, scrapes=40))
    assert (stacked.node_slots, stacked.pod_slots, stacked.app_load.shape) == (5, 9, (1, 20, 2))
    with pytest.raises(InputError, match=r"node_cpu_millicores of a tape has the shape \(2,\): there is room"):
        stack([hand_tape(nodes=2, pods=3)], Sizes(nodes=1, pods=9, apps=2, zones=3, steps=20, scrapes=40))


def test_both_simulators_read_the_same_rounded_numbers(hand_tape):
    tape = hand_tape(pod_cpu_use_ratio=0.1, node_cpu_millicores=4000.1)
    assert tape.pod_cpu_use_ratio.dtype == np.float32
    assert tape.node_cpu_millicores.dtype == np.float64
    assert stack([tape]).pod_cpu_use_ratio[0, 0] == tape.pod_cpu_use_ratio[0]
