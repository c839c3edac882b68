from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.assumed import Assumed, ExpectedUse, Requests, expected_of, requests_of
from agent.cluster import GPUS_PER_NODE, ClusterState, Demand
from agent.pending import pending_weight
from agent.reserve import reserve_refuses

NODES = ("a", "b", "c")
INDEX = {name: index for index, name in enumerate(NODES)}
REQUESTS = Requests(cpu_millicores=500.0, memory_mib=256.0)
EXPECTED = ExpectedUse(cpu_millicores=300.0, memory_mib=200.0, rx_mbps=40.0, tx_mbps=20.0)


def a_state(**columns) -> ClusterState:
    zeros = {column.name: np.zeros(len(NODES)) for column in fields(ClusterState)}
    zeros |= {
        "cpu_allocatable_millicores": np.full(len(NODES), 1000.0),
        "memory_allocatable_mib": np.full(len(NODES), 1000.0),
        "gpu_free_milli": np.zeros((len(NODES), GPUS_PER_NODE)),
    }
    return ClusterState(**zeros | columns)


def a_demand(cpu: float, memory: float = 0.0) -> Demand:
    columns = {column.name: np.zeros(()) for column in fields(Demand)}
    columns |= {"expected_cpu_millicores": np.asarray(cpu), "expected_memory_mib": np.asarray(memory)}
    columns |= {"cpu_request_millicores": np.asarray(cpu), "memory_request_mib": np.asarray(memory)}
    return Demand(**columns)


@pytest.fixture
def assumed():
    return Assumed(provisional_s=2.0, bound_s=300.0, window_s=60.0)


def requested(assumed, now_s, **options):
    return assumed.added_to(a_state(), INDEX, now_s, **options).cpu_requested_millicores.tolist()


def pending(assumed, now_s, state=None):
    return assumed.added_to(state or a_state(), INDEX, now_s).pending_rx_mbps.tolist()


# --- provisional rows: what the watch does not show


def test_a_placement_is_a_sibling_of_its_app_until_the_watch_shows_it(assumed):
    for uid, node in (("u1", "b"), ("u2", "b"), ("u3", "c")):
        assumed.assume(uid, node, REQUESTS, EXPECTED, now_s=10.0, app=("shop", "web"))
    assumed.assume("u4", "a", REQUESTS, EXPECTED, now_s=10.0, app=("bank", "web"))
    assumed.assume("u5", "a", REQUESTS, EXPECTED, now_s=10.0)
    assert sorted(assumed.siblings(("shop", "web"), INDEX)) == [1, 1, 2]
    assert assumed.siblings(("shop", "web"), INDEX, without_uid="u3").tolist() == [1, 1]
    assert assumed.siblings(("shop", "web"), {"a": 0, "c": 1}).tolist() == [1]  # b is gone
    assumed.assume("u3", "a", REQUESTS, EXPECTED, now_s=10.5, app=("shop", "web"))
    assumed.seen("u1", "b", bound_at_s=10.5)
    assert sorted(assumed.siblings(("shop", "web"), INDEX)) == [0, 1]
    assumed.deleted("u2")
    assumed.expire(now_s=13.0)
    assert assumed.siblings(("shop", "web"), INDEX).tolist() == []
    assert assumed.siblings(("bank", "web"), INDEX).tolist() == []


def test_a_placement_waits_no_more_though_the_watch_shows_it_waiting(assumed):
    for uid, app in (("u1", ("shop", "web")), ("u2", None), ("u3", None)):
        assumed.assume(uid, "b", REQUESTS, EXPECTED, now_s=10.0, app=app)
    assert (assumed.unseen(), assumed.unseen(without_uid="u2"), assumed.unseen(without_uid="u9")) == (3, 2, 3)
    assumed.assume("u3", "a", REQUESTS, EXPECTED, now_s=10.5)
    assumed.seen("u1", "b", bound_at_s=10.5)
    assert assumed.unseen() == 2
    assumed.deleted("u2")
    assumed.expire(now_s=13.0)
    assert assumed.unseen() == 0


def test_an_assumed_pod_counts_in_requests_and_in_expected_use(assumed):
    assumed.assume("u1", "b", REQUESTS, EXPECTED, now_s=10.0)
    state = assumed.added_to(a_state(), INDEX, now_s=10.0)
    assert state.cpu_requested_millicores.tolist() == [0.0, 500.0, 0.0]
    assert state.memory_requested_mib.tolist() == [0.0, 256.0, 0.0]
    assert state.pods_running.tolist() == [0.0, 1.0, 0.0]
    assert state.pending_cpu_millicores.tolist() == [0.0, 300.0, 0.0]
    assert state.pending_memory_mib.tolist() == [0.0, 200.0, 0.0]
    assert state.pending_rx_mbps.tolist() == [0.0, 40.0, 0.0]
    assert state.pending_tx_mbps.tolist() == [0.0, 20.0, 0.0]
    assert state.pending_pods.tolist() == [0.0, 1.0, 0.0]


def test_what_the_state_already_holds_is_added_to_and_the_state_itself_unchanged(assumed):
    before = a_state(cpu_requested_millicores=np.array([0.0, 100.0, 0.0]), pending_rx_mbps=np.array([0.0, 5.0, 0.0]))
    assumed.assume("u1", "b", REQUESTS, EXPECTED, now_s=10.0)
    after = assumed.added_to(before, INDEX, now_s=10.0)
    assert after.cpu_requested_millicores[1] == 600.0
    assert after.pending_rx_mbps[1] == 45.0
    assert before.cpu_requested_millicores[1] == 100.0


def test_a_repeated_call_replaces_and_never_adds(assumed):
    for node in ("a", "b", "b", "c"):
        assumed.assume("u1", node, REQUESTS, EXPECTED, now_s=10.0)
    assert requested(assumed, 10.0) == [0.0, 0.0, 500.0]
    assert len(assumed) == 1


def test_a_provisional_row_leaves_after_its_time(assumed):
    assumed.assume("u1", "b", REQUESTS, EXPECTED, now_s=10.0)
    assert requested(assumed, 11.9) == [0.0, 500.0, 0.0]
    assert requested(assumed, 12.0) == [0.0, 0.0, 0.0]
    assert len(assumed) == 0


def test_the_pod_that_is_scored_does_not_count_against_itself(assumed):
    assumed.assume("u1", "b", REQUESTS, EXPECTED, now_s=10.0)
    assumed.assume("u2", "c", REQUESTS, EXPECTED, now_s=10.0)
    assert requested(assumed, 10.0, without_uid="u1") == [0.0, 0.0, 500.0]
    assert requested(assumed, 10.0) == [0.0, 500.0, 500.0], "it still counts for the others"


def test_gpus_are_taken_from_the_node(assumed):
    state = a_state(gpu_free_milli=np.array([[1000.0, 1000.0] + [0.0] * 6] * 3))
    assumed.assume("u1", "b", Requests(gpus=1.0), EXPECTED, now_s=10.0)
    assert assumed.added_to(state, INDEX, 10.0).gpu_free_milli.sum(axis=1).tolist() == [2000.0, 1000.0, 2000.0]
    assert state.gpu_free_milli.sum() == 6000.0


def test_a_node_that_is_gone_is_passed_over(assumed):
    assumed.assume("u1", "removed", REQUESTS, EXPECTED, now_s=10.0)
    assumed.assume("u2", "a", REQUESTS, EXPECTED, now_s=10.0)
    assert requested(assumed, 10.0) == [500.0, 0.0, 0.0]


# --- bound rows: what the metrics do not show


def test_the_watch_takes_over_requests_and_corrects_the_node(assumed):
    assumed.assume("u1", "b", REQUESTS, EXPECTED, now_s=10.0)
    assumed.seen("u1", "c", bound_at_s=10.5)
    assert assumed.node_of("u1") == "c"
    assert requested(assumed, 10.6) == [0.0, 0.0, 0.0]
    assert assumed.added_to(a_state(), INDEX, 10.6).pods_running.tolist() == [0.0, 0.0, 0.0]
    assert pending(assumed, 10.6) == [0.0, 0.0, pytest.approx(40.0, rel=0.01)]


def test_a_bound_row_outlives_the_provisional_limit_and_fades_as_the_window_covers_it(assumed):
    assumed.assume("u1", "b", REQUESTS, EXPECTED, now_s=10.0)
    assumed.seen("u1", "b", bound_at_s=10.0)
    assert pending(assumed, 40.0) == [0.0, 20.0, 0.0], "the sample is from 40 s, so half of the window shows the pod"
    old_sample = a_state(network_age_s=np.full(3, 30.0))
    assert pending(assumed, 40.0, old_sample) == [0.0, 40.0, 0.0], "a sample from before the bind shows nothing of it"
    assert pending(assumed, 70.0) == [0.0, 0.0, 0.0]


def test_memory_is_a_gauge_and_is_covered_by_the_first_sample_after_the_bind(assumed):
    assumed.seen("u1", "b", bound_at_s=10.0, expected=EXPECTED)
    assert assumed.added_to(a_state(), INDEX, 11.0).pending_memory_mib.tolist() == [0.0, 0.0, 0.0]
    old_sample = a_state(memory_age_s=np.full(3, 5.0))
    assert assumed.added_to(old_sample, INDEX, 11.0).pending_memory_mib.tolist() == [0.0, 200.0, 0.0]


def test_a_node_without_metrics_counts_the_whole_pod(assumed):
    assumed.seen("u1", "b", bound_at_s=10.0, expected=EXPECTED)
    assert pending(assumed, 100.0, a_state(network_age_s=np.full(3, np.inf))) == [0.0, 40.0, 0.0]


def test_pods_placed_by_others_count_when_their_use_is_given(assumed):
    assumed.seen("stranger", "a", bound_at_s=10.0)
    assert len(assumed) == 0
    assumed.seen("stranger", "a", bound_at_s=10.0, expected=EXPECTED)
    assert pending(assumed, 10.0) == [40.0, 0.0, 0.0]


def test_a_late_assume_after_the_bind_changes_nothing(assumed):
    assumed.seen("u1", "c", bound_at_s=10.0, expected=EXPECTED)
    assumed.assume("u1", "a", REQUESTS, EXPECTED, now_s=11.0)
    assert assumed.node_of("u1") == "c"
    assert requested(assumed, 11.0) == [0.0, 0.0, 0.0]


def test_the_first_time_seen_counts_when_the_watch_repeats_itself(assumed):
    assumed.seen("u1", "b", bound_at_s=10.0, expected=EXPECTED)
    assumed.seen("u1", "b", bound_at_s=40.0)
    assert pending(assumed, 40.0) == [0.0, 20.0, 0.0]


def test_a_deleted_pod_leaves_at_once(assumed):
    assumed.assume("u1", "b", REQUESTS, EXPECTED, now_s=10.0)
    assumed.seen("u2", "b", bound_at_s=10.0, expected=EXPECTED)
    assumed.deleted("u1")
    assumed.deleted("u2")
    assumed.deleted("never heard of")
    assert pending(assumed, 10.0) == [0.0, 0.0, 0.0]


def test_what_the_metrics_still_show_of_a_pod_that_left_is_taken_away(assumed):
    state = a_state(rx_mbps=np.array([0.0, 100.0, 0.0]), memory_used_mib=np.array([0.0, 500.0, 0.0]))
    assumed.left("u1", "b", 10.0, EXPECTED)
    assert assumed.added_to(state, INDEX, 10.0).pending_rx_mbps.tolist() == [0.0, -40.0, 0.0]
    assert assumed.added_to(replace(state), INDEX, 25.0).pending_rx_mbps.tolist() == [0.0, -30.0, 0.0]
    assert assumed.added_to(replace(state), INDEX, 25.0).pending_memory_mib.tolist() == [0.0, 0.0, 0.0]
    assert assumed.added_to(replace(state), INDEX, 25.0).pending_pods.tolist() == [0.0, 0.0, 0.0]
    assert len(assumed) == 0
    assert pending(assumed, 70.0) == [0.0, 0.0, 0.0]


def test_a_pod_that_came_and_went_within_the_window_is_shown_for_as_long_as_it_ran(assumed):
    state = a_state(rx_mbps=np.array([0.0, 100.0, 0.0]))
    assumed.seen("u1", "b", bound_at_s=10.0, expected=EXPECTED)
    assumed.left("u1", "b", 40.0, EXPECTED)
    assert assumed.added_to(state, INDEX, 40.0).pending_rx_mbps.tolist() == [0.0, -20.0, 0.0]


def test_no_more_is_taken_away_than_was_measured_and_nothing_of_what_is_unknown(assumed):
    measured = np.array([0.0, 15.0, np.nan])
    assumed.left("u1", "b", 10.0, EXPECTED)
    assumed.left("u2", "c", 10.0, EXPECTED)
    assert assumed.added_to(a_state(rx_mbps=measured), INDEX, 10.0).pending_rx_mbps.tolist() == [0.0, -15.0, 0.0]


def test_rows_of_pods_that_left_leave_after_two_windows_and_old_news_does_not_bring_them_back(assumed):
    assumed.left("u1", "b", 10.0, EXPECTED)
    assumed.seen("u1", "b", bound_at_s=10.0, expected=EXPECTED)
    assumed.assume("u1", "b", REQUESTS, EXPECTED, now_s=11.0)
    assert len(assumed) == 0
    assumed.expire(130.0)
    assert assumed.node_of("u1") is None


def test_a_bound_row_leaves_after_its_time_even_if_no_metric_ever_comes(assumed):
    assumed.seen("u1", "b", bound_at_s=10.0, expected=EXPECTED)
    assumed.expire(309.9)
    assert len(assumed) == 1
    assumed.expire(310.0)
    assert len(assumed) == 0


def test_after_a_thousand_cycles_it_is_empty(assumed):
    for cycle in range(1000):
        uid, now_s = f"u{cycle}", cycle * 0.1
        assumed.assume(uid, NODES[cycle % 3], REQUESTS, EXPECTED, now_s)
        if cycle % 3 != 0:
            assumed.seen(uid, NODES[cycle % 2], now_s)
        if cycle % 3 == 2:
            assumed.deleted(uid)
    assumed.expire(100.0 + 300.0)
    assert len(assumed) == 0
    assert pending(assumed, 400.0) == [0.0, 0.0, 0.0]


def test_rows_are_used_again_so_that_memory_does_not_grow(assumed):
    rows = len(assumed._table)
    for cycle in range(1000):
        assumed.assume(f"u{cycle}", "a", REQUESTS, EXPECTED, now_s=cycle * 3.0)
    assert len(assumed._table) == rows


def test_more_pods_at_once_than_the_table_begins_with(assumed):
    for number in range(500):
        assumed.assume(f"u{number}", "b", REQUESTS, EXPECTED, now_s=1.0)
    assert requested(assumed, 1.0) == [0.0, 250_000.0, 0.0]


# --- the weight, alone


@pytest.mark.parametrize(
    ("sample_at_s", "weight"), [(-np.inf, 1.0), (90.0, 1.0), (100.0, 1.0), (115.0, 0.75), (160.0, 0.0), (999.0, 0.0)]
)
def test_weight_is_the_part_of_the_window_before_the_bind(sample_at_s, weight):
    assert pending_weight(100.0, sample_at_s, 60.0) == weight


def test_weight_works_on_arrays():
    weights = pending_weight(np.array([100.0, 100.0]), np.array([100.0, 130.0]), np.asarray(60.0))
    assert weights.tolist() == [1.0, 0.5]


def test_weight_compiled_equals_weight():
    numba = pytest.importorskip("numba")
    compiled = numba.njit(pending_weight)
    for sample_at_s in (-np.inf, 90.0, 115.0, 999.0):
        assert compiled(100.0, sample_at_s, 60.0) == pending_weight(100.0, sample_at_s, 60.0)


# --- Reserve


@pytest.mark.parametrize(("pod", "refused"), [(450.0, False), (451.0, True)])
@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_exactly_the_limit_passes_and_more_is_refused(resource, pod, refused):
    used = {"cpu": "cpu_used_millicores", "memory": "memory_used_mib"}[resource]
    waiting = {"cpu": "pending_cpu_millicores", "memory": "pending_memory_mib"}[resource]
    state = a_state(**{used: np.array([300.0, 0.0, 0.0]), waiting: np.array([200.0, 0.0, 0.0])})
    demand = a_demand(**{"cpu": 0.0, "memory": 0.0} | {resource: pod})
    assert reserve_refuses(state, demand).tolist() == [refused, False, False]


def test_the_limit_is_configurable():
    state = a_state(cpu_used_millicores=np.array([300.0, 301.0, 0.0]))
    assert reserve_refuses(state, a_demand(300.0), limit_percent=60.0).tolist() == [False, True, False]


def test_unknown_use_is_predicted_by_requests():
    state = a_state(
        cpu_used_millicores=np.array([np.nan, np.nan, 0.0]), cpu_requested_millicores=np.array([700.0, 600.0, 900.0])
    )
    assert reserve_refuses(state, a_demand(300.0)).tolist() == [True, False, False]


def test_two_pods_that_fit_alone_but_not_together_do_not_both_pass(assumed):
    demand = a_demand(600.0)
    assert not reserve_refuses(assumed.added_to(a_state(), INDEX, 1.0, "first"), demand)[0]
    assumed.assume("first", "a", requests_of(demand), expected_of(demand), now_s=1.0)
    assert reserve_refuses(assumed.added_to(a_state(), INDEX, 1.1, "second"), demand).tolist() == [True, False, False]


def test_an_unknown_expectation_counts_as_nothing():
    demand = replace(a_demand(100.0), expected_rx_mbps=np.asarray(np.nan))
    assert expected_of(demand).rx_mbps == 0.0


# --- sums are kept from one question to the next


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["assume", "seen", "left", "deleted", "asked"]),
            st.sampled_from(["u1", "u2", "u3", "u4"]),
            st.sampled_from([*NODES, "gone"]),
            st.floats(0.0, 1.5),
        ),
        max_size=30,
    )
)
def test_sums_that_were_kept_are_those_of_the_rows(steps):
    assumed, now_s = Assumed(2.0, 300.0, 60.0), 100.0
    state = a_state(cpu_age_s=np.array([5.0, 0.0, np.inf]), rx_mbps=np.full(3, 50.0))
    for what, uid, node, passed_s in steps:
        now_s += passed_s
        if what == "assume":
            assumed.assume(uid, node, REQUESTS, EXPECTED, now_s)
        elif what == "seen":
            assumed.seen(uid, node, now_s, EXPECTED)
        elif what == "left":
            assumed.left(uid, node, now_s, EXPECTED)
        elif what == "deleted":
            assumed.deleted(uid)
        else:
            assumed.added_to(state, INDEX, now_s, without_uid=uid, taken_at_s=100.0)
    kept = assumed.added_to(state, INDEX, now_s, taken_at_s=100.0)
    anew = assumed.added_to(replace(state), INDEX, now_s, taken_at_s=100.0)
    for column in fields(ClusterState):
        np.testing.assert_allclose(getattr(kept, column.name), getattr(anew, column.name), atol=1e-9)
