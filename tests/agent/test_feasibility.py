"""Which nodes a pod may go to, and what is said of the others."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cluster import Node, NodeSelectorTerm, Pod, Requirement, Taint, Toleration
from agent.feasibility import UsageThresholds, cpu_usage, feasibility, fits, gpu_fits, memory_usage
from agent.nodetable import MAINTENANCE_LABEL, NodeTable

DEDICATED = Taint("dedicated", "NoSchedule", "gpu")


def a_node(name: str = "n0", **fields) -> Node:
    return Node(name, cpu_allocatable_millicores=4000, memory_allocatable_bytes=8000 * 2**20, **fields)


def named(count: int) -> list[Node]:
    return [a_node(f"n{index}") for index in range(count)]


def a_pod(**fields) -> Pod:
    return Pod("uid", **fields)


def labels_admit(labels: dict[str, str], pod: Pod, make_state, name: str = "n0") -> bool:
    return bool(feasibility([a_node(name, labels=labels)], make_state(1), pod).mask[0])


# --- resources


def test_a_pod_that_fits_leaves_no_reasons(make_state) -> None:
    answer = feasibility(named(3), make_state(3), a_pod(cpu_request_millicores=4000))
    assert answer.mask.tolist() == [True, True, True]
    assert answer.reasons == {}
    assert answer.unresolvable == frozenset()


def test_shortage_is_named_with_its_figures(make_state) -> None:
    state = make_state(2, cpu_requested_millicores=[3500, 3501], memory_requested_mib=[7744, 7744.5])
    answer = feasibility(named(2), state, a_pod(cpu_request_millicores=500, memory_request_bytes=256 * 2**20))
    assert answer.mask.tolist() == [True, False]
    assert answer.reasons == {
        "n1": [
            "Insufficient cpu: requested 500m, free 499m of 4000m",
            "Insufficient memory: requested 256Mi, free 255.5Mi of 8000Mi",
        ]
    }
    assert answer.unresolvable == frozenset()


def test_a_node_that_is_too_small_even_when_empty_is_unresolvable(make_state) -> None:
    state = make_state(2, cpu_allocatable_millicores=[1000, 8000], cpu_requested_millicores=[0, 7000])
    answer = feasibility(named(2), state, a_pod(cpu_request_millicores=2000))
    assert not answer.mask.any()
    assert answer.unresolvable == {"n0"}


def test_an_overcommitted_node_takes_pods_that_ask_for_nothing(make_state) -> None:
    state = make_state(1, cpu_requested_millicores=[5000], memory_requested_mib=[9000])
    assert feasibility(named(1), state, a_pod()).mask.all()
    assert not feasibility(named(1), state, a_pod(cpu_request_millicores=1)).mask.any()


def test_memory_is_compared_to_the_byte(make_state) -> None:
    state = make_state(1, memory_requested_mib=[7999])
    assert feasibility(named(1), state, a_pod(memory_request_bytes=2**20)).mask.all()
    assert not feasibility(named(1), state, a_pod(memory_request_bytes=2**20 + 1)).mask.any()


def test_pod_count(make_state) -> None:
    answer = feasibility(named(2), make_state(2, pods_running=[109, 110]), a_pod())
    assert answer.mask.tolist() == [True, False]
    assert answer.reasons["n1"] == ["Too many pods: 110 of 110"]


def test_gpus_count_devices_with_room(make_state) -> None:
    free = np.zeros((3, 8))
    free[0, :2] = 1000
    free[1, :3] = [1000, 500, 999]
    state = make_state(3, gpu_count=[2, 3, 0], gpu_free_milli=free)
    answer = feasibility(named(3), state, a_pod(gpus=2))
    assert answer.mask.tolist() == [True, False, False]
    assert answer.reasons["n1"] == ["Insufficient gpu: requested 2, free 1 of 3"]
    assert answer.unresolvable == {"n2"}
    shared = feasibility(named(3), state, a_pod(gpus=3, gpu_milli=400))
    assert shared.mask.tolist() == [False, True, False]
    assert shared.reasons["n0"] == ["Insufficient gpu: requested 3 x 400m, free 2 of 2"]


def test_a_feasible_node_is_never_unresolvable(make_state) -> None:
    """Devices can appear in use before the node reports their number."""
    answer = feasibility(named(1), make_state(1, gpu_count=[0], gpu_free_milli=np.full((1, 8), 1000)), a_pod(gpus=1))
    assert answer.mask.all()
    assert answer.unresolvable == frozenset()


# --- conditions, taints, selectors


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (a_node(ready=False), "node(s) were not ready"),
        (a_node(unschedulable=True), "node(s) were unschedulable"),
        (a_node(labels={MAINTENANCE_LABEL: "true"}), "node(s) were under maintenance"),
        (a_node(taints=(DEDICATED,)), "node(s) had untolerated taint(s): dedicated=gpu:NoSchedule"),
        (a_node(taints=(Taint("k", "NoExecute"),)), "node(s) had untolerated taint(s): k:NoExecute"),
    ],
)
def test_conditions_and_taints_reject_and_no_eviction_helps(node, reason, make_state) -> None:
    answer = feasibility([node, a_node("n1")], make_state(2), a_pod())
    assert answer.mask.tolist() == [False, True]
    assert answer.reasons == {"n0": [reason]}
    assert answer.unresolvable == {"n0"}


@pytest.mark.parametrize("value", ["false", "True", ""])
def test_only_the_exact_maintenance_label_counts(value, make_state) -> None:
    assert labels_admit({MAINTENANCE_LABEL: value}, a_pod(), make_state)


def test_maintenance_cannot_be_tolerated_but_cordon_and_not_ready_can(make_state) -> None:
    anything = a_pod(tolerations=(Toleration(operator="Exists"),))
    nodes = [
        a_node("cordoned", unschedulable=True),
        a_node("away", ready=False),
        a_node("repair", labels={MAINTENANCE_LABEL: "true"}),
    ]
    state = make_state(3, schedulable=[False, False, False])
    assert feasibility(nodes, state, anything).mask.tolist() == [True, True, False]


def test_a_state_that_says_unschedulable_is_believed(make_state) -> None:
    answer = feasibility(named(2), make_state(2, schedulable=[True, False]), a_pod())
    assert answer.reasons == {"n1": ["node(s) were not schedulable"]}


TOLERATIONS = {
    "equal key and value": (Toleration("dedicated", "Equal", "gpu", "NoSchedule"), True),
    "another value": (Toleration("dedicated", "Equal", "cpu", "NoSchedule"), False),
    "another key": (Toleration("other", "Equal", "gpu", "NoSchedule"), False),
    "another effect": (Toleration("dedicated", "Equal", "gpu", "NoExecute"), False),
    "no effect means every effect": (Toleration("dedicated", "Equal", "gpu"), True),
    "Exists asks for no value": (Toleration("dedicated", "Exists"), True),
    "Exists of another key": (Toleration("other", "Exists"), False),
    "Exists without a key means everything": (Toleration("", "Exists"), True),
    "an empty operator means Equal": (Toleration("dedicated", "", "gpu"), True),
    "an unknown operator tolerates nothing": (Toleration("dedicated", "Lt", "gpu"), False),
}


@pytest.mark.parametrize(("toleration", "tolerated"), TOLERATIONS.values(), ids=TOLERATIONS.keys())
def test_tolerations(toleration, tolerated, make_state) -> None:
    answer = feasibility([a_node(taints=(DEDICATED,))], make_state(1), a_pod(tolerations=(toleration,)))
    assert answer.mask.tolist() == [tolerated]


def test_a_preference_is_no_reason(make_state) -> None:
    nodes = [a_node(taints=(Taint("slow", "PreferNoSchedule"),))]
    assert feasibility(nodes, make_state(1), a_pod()).mask.all()


def test_every_untolerated_taint_is_named(make_state) -> None:
    nodes = [a_node(taints=(DEDICATED, Taint("a", "NoExecute"), Taint("b", "NoSchedule")))]
    answer = feasibility(nodes, make_state(1), a_pod(tolerations=(Toleration("a", "Exists"),)))
    assert answer.reasons["n0"] == ["node(s) had untolerated taint(s): dedicated=gpu:NoSchedule, b:NoSchedule"]


def test_node_selector_needs_every_label(make_state) -> None:
    pod = a_pod(node_selector={"disk": "ssd", "zone": "a"})
    assert labels_admit({"disk": "ssd", "zone": "a", "more": "x"}, pod, make_state)
    answer = feasibility([a_node(labels={"disk": "hdd"})], make_state(1), pod)
    assert answer.reasons["n0"] == [
        "node(s) didn't match Pod's node affinity/selector: selector disk=ssd",
        "node(s) didn't match Pod's node affinity/selector: selector zone=a",
    ]
    assert answer.unresolvable == {"n0"}


# operator, values, labels, admitted
REQUIREMENTS = {
    "In: one of the values": ("In", ("a", "b"), {"k": "b"}, True),
    "In: another value": ("In", ("a", "b"), {"k": "c"}, False),
    "In: no label": ("In", ("a",), {}, False),
    "In: an empty value is a value": ("In", ("",), {"k": ""}, True),
    "In: an empty value is not a missing label": ("In", ("",), {}, False),
    "In: without values is ill-formed": ("In", (), {"k": ""}, False),
    "NotIn: another value": ("NotIn", ("a",), {"k": "b"}, True),
    "NotIn: one of the values": ("NotIn", ("a", "b"), {"k": "b"}, False),
    "NotIn: no label": ("NotIn", ("a",), {}, True),
    "NotIn: a value no label can have makes the term void": ("NotIn", ("x y",), {"k": "b"}, False),
    "NotIn: without values is ill-formed": ("NotIn", (), {"k": "b"}, False),
    "Exists: any value": ("Exists", (), {"k": ""}, True),
    "Exists: no label": ("Exists", (), {}, False),
    "Exists: with values is ill-formed": ("Exists", ("a",), {"k": "a"}, False),
    "DoesNotExist: no label": ("DoesNotExist", (), {}, True),
    "DoesNotExist: any value": ("DoesNotExist", (), {"k": "a"}, False),
    "Gt: greater as a number, not as a text": ("Gt", ("9",), {"k": "10"}, True),
    "Gt: equal": ("Gt", ("9",), {"k": "9"}, False),
    "Gt: a label that is no number": ("Gt", ("9",), {"k": "many"}, False),
    "Gt: no label": ("Gt", ("9",), {}, False),
    "Gt: a label beyond int64": ("Gt", ("9",), {"k": "9223372036854775808"}, False),
    "Gt: two values are ill-formed": ("Gt", ("9", "8"), {"k": "10"}, False),
    "Gt: a limit that is no number": ("Gt", ("x",), {"k": "10"}, False),
    "Lt: smaller": ("Lt", ("10",), {"k": "9"}, True),
    "Lt: equal": ("Lt", ("10",), {"k": "10"}, False),
    "an unknown operator": ("Like", ("a",), {"k": "a"}, False),
}


@pytest.mark.parametrize(("operator", "values", "labels", "admitted"), REQUIREMENTS.values(), ids=REQUIREMENTS.keys())
def test_required_affinity(operator, values, labels, admitted, make_state) -> None:
    term = NodeSelectorTerm((Requirement("k", operator, values),))
    assert labels_admit(labels, a_pod(required_affinity=(term,)), make_state) is admitted


def test_terms_are_alternatives_and_requirements_must_all_hold(make_state) -> None:
    ssd, zone_a = Requirement("disk", "In", ("ssd",)), Requirement("zone", "In", ("a",))
    both, either = (NodeSelectorTerm((ssd, zone_a)),), (NodeSelectorTerm((ssd,)), NodeSelectorTerm((zone_a,)))
    assert labels_admit({"disk": "ssd", "zone": "a"}, a_pod(required_affinity=both), make_state)
    assert not labels_admit({"disk": "ssd", "zone": "b"}, a_pod(required_affinity=both), make_state)
    assert labels_admit({"disk": "ssd", "zone": "b"}, a_pod(required_affinity=either), make_state)
    assert not labels_admit({"disk": "hdd", "zone": "b"}, a_pod(required_affinity=either), make_state)


def test_a_void_term_does_not_spoil_the_others_and_an_empty_one_selects_nothing(make_state) -> None:
    void = NodeSelectorTerm((Requirement("k", "Like", ("a",)),))
    good = NodeSelectorTerm((Requirement("k", "Exists"),))
    assert labels_admit({"k": "a"}, a_pod(required_affinity=(void, good)), make_state)
    assert not labels_admit({"k": "a"}, a_pod(required_affinity=(NodeSelectorTerm(),)), make_state)


@pytest.mark.parametrize(
    ("operator", "values", "admitted"),
    [
        ("In", ("n1",), [False, True]),
        ("NotIn", ("n1",), [True, False]),
        ("In", ("n0", "n1"), [False, False]),  # one value only, as kube-scheduler demands
        ("Exists", (), [False, False]),
    ],
)
def test_match_fields_select_by_name(operator, values, admitted, make_state) -> None:
    term = NodeSelectorTerm(match_names=(Requirement("metadata.name", operator, values),))
    assert feasibility(named(2), make_state(2), a_pod(required_affinity=(term,))).mask.tolist() == admitted


# --- latency and usage


def test_latency_above_the_hard_constraint_rejects_and_unknown_latency_passes(make_state) -> None:
    state = make_state(4, user_latency_ms=[99, 100, 100.5, np.nan])
    answer = feasibility(named(4), state, a_pod(latency_hard_ms=100.0, latency_soft_ms=35.0))
    assert answer.mask.tolist() == [True, True, False, True]
    assert answer.reasons["n2"] == ["node(s) exceeded the pod's latencyHardConstraint: 100.5 ms, at most 100 ms"]
    assert answer.unresolvable == {"n2"}
    assert feasibility(named(4), state, a_pod(latency_soft_ms=35.0)).mask.all()


def test_usage_above_a_threshold_rejects_with_both_values_and_exactly_80_passes(make_state) -> None:
    state = make_state(
        4, cpu_used_millicores=[3200, 3201, 0, 3200], memory_used_mib=[6400, 4000, 6401, 6400], cpu_age_s=[0, 0, 0, 90]
    )
    answer = feasibility(named(4), state, a_pod(), UsageThresholds())
    assert answer.mask.tolist() == [True, False, False, True]
    prefix = "node(s) were above the usage threshold: "
    assert answer.reasons == {
        "n1": [prefix + "cpu 80.03 % (measured, limit 80 %), memory 50.00 % (measured, limit 80 %)"],
        "n2": [prefix + "cpu 0.00 % (measured, limit 80 %), memory 80.01 % (measured, limit 80 %)"],
    }
    assert answer.unresolvable == frozenset()
    assert feasibility(named(4), state, a_pod()).mask.all()


@given(st.integers(1, 10_000), st.integers(1, 99))
def test_a_whole_percentage_comes_out_exactly(hundredths, percent) -> None:
    """80 % of any size is 80, not 80.00000000000001."""
    used, allocatable = np.array([hundredths * percent * 1.0]), np.array([hundredths * 100.0])
    state = SimpleNamespace(
        cpu_used_millicores=used,
        cpu_age_s=np.zeros(1),
        cpu_requested_millicores=np.zeros(1),
        cpu_allocatable_millicores=allocatable,
    )
    assert cpu_usage(state, 90.0).percent.tolist() == [percent]


def test_missing_or_old_metrics_give_way_to_requests(make_state) -> None:
    state = make_state(
        3,
        cpu_used_millicores=[np.nan, 100, 100],
        cpu_age_s=[np.inf, 90.1, 90],
        cpu_requested_millicores=[3600, 3600, 3600],
    )
    usage = cpu_usage(state, stale_after_s=90.0)
    assert usage.percent.tolist() == [90, 90, 2.5]
    assert usage.measured.tolist() == [False, False, True]
    answer = feasibility(named(3), state, a_pod(), UsageThresholds())
    assert answer.mask.tolist() == [False, False, True]
    assert "cpu 90.00 % (from requests, limit 80 %), memory 0.00 % (measured" in answer.reasons["n1"][0]


def test_memory_falls_back_on_its_own_age(make_state) -> None:
    state = make_state(2, memory_used_mib=[800, 800], memory_age_s=[5, 500], memory_requested_mib=[4000, 4000])
    assert memory_usage(state, stale_after_s=90.0).percent.tolist() == [10, 50]


def test_usage_takes_batches(make_state) -> None:
    one = make_state(2, cpu_used_millicores=[400, np.nan], cpu_requested_millicores=[0, 2000])
    columns = ("cpu_used_millicores", "cpu_age_s", "cpu_requested_millicores", "cpu_allocatable_millicores")
    both = replace(one, **{name: np.stack([getattr(one, name)] * 2) for name in columns})
    assert cpu_usage(both, 90.0).percent.tolist() == [[10, 50], [10, 50]]


def test_a_node_without_capacity_does_not_warn_or_divide(make_state) -> None:
    state = make_state(1, cpu_allocatable_millicores=[0])
    assert feasibility(named(1), state, a_pod(), UsageThresholds()).mask.all()


# --- the whole


def test_one_rejection_removes_the_node_and_all_reasons_are_kept(make_state) -> None:
    state = make_state(2, cpu_requested_millicores=[4000, 0], pods_running=[110, 0], user_latency_ms=[200, 0])
    nodes = [a_node(unschedulable=True, taints=(DEDICATED,)), a_node("n1")]
    pod = a_pod(cpu_request_millicores=1, node_selector={"x": "y"}, latency_hard_ms=100.0)
    answer = feasibility(nodes, state, pod)
    assert not answer.mask.any()
    assert [reason.split(":")[0] for reason in answer.reasons["n0"]] == [
        "node(s) were unschedulable",
        "node(s) had untolerated taint(s)",
        "node(s) didn't match Pod's node affinity/selector",
        "Too many pods",
        "Insufficient cpu",
        "node(s) exceeded the pod's latencyHardConstraint",
    ]
    assert len(answer.reasons["n1"]) == 1


def test_nodes_and_state_must_belong_together(make_state) -> None:
    with pytest.raises(ValueError, match="2 nodes do not belong to a state of 3"):
        feasibility(named(2), make_state(3), a_pod())


def test_no_nodes_are_no_error(make_state) -> None:
    answer = feasibility([], make_state(0), a_pod(node_selector={"a": "b"}), UsageThresholds())
    assert answer.mask.shape == (0,)
    assert answer.reasons == {}


def test_a_table_answers_like_the_nodes_it_was_built_from(make_state) -> None:
    nodes = [a_node("n0", labels={"k": "a"}), a_node("n1", taints=(DEDICATED,)), a_node("n2", ready=False)]
    table, state, pod = NodeTable(nodes), make_state(3), a_pod(node_selector={"k": "a"})
    for _ in range(2):  # the second time from the kept column
        assert feasibility(table, state, pod).reasons == feasibility(nodes, state, pod).reasons
    assert list(table) == nodes
    assert list(table[1:]) == nodes[1:]


def test_a_table_keeps_a_bounded_number_of_labels() -> None:
    table = NodeTable([a_node(labels={"k999": "x"})])
    for index in range(1000):
        table.column(f"k{index}")
    assert len(table._columns) <= 256
    assert table.labelled("k999", "x").all()


FREE = (-1.0, 0.0, 1.0, 2.0)


def every_combination() -> list[np.ndarray]:
    """CPU, memory and pods free, CPU and memory requested: all combinations as columns."""
    return [axis.ravel() for axis in np.meshgrid(FREE, FREE, FREE, (0.0, 1.0, 2.0), (0.0, 1.0, 2.0))]


def test_fits_says_what_feasibility_says(make_state) -> None:
    """The simulators use the one, the sidecar the other."""
    columns = np.stack(every_combination(), axis=-1)
    for cpu, memory in np.unique(columns[:, 3:], axis=0):
        cpu_free, memory_free, pods_free = columns[(columns[:, 3] == cpu) & (columns[:, 4] == memory), :3].T
        state = make_state(
            len(cpu_free),
            cpu_requested_millicores=4000 - cpu_free,
            memory_requested_mib=8000 - memory_free,
            pods_running=110 - pods_free,
        )
        pod = a_pod(cpu_request_millicores=int(cpu), memory_request_bytes=int(memory) * 2**20)
        mask = feasibility(named(len(cpu_free)), state, pod).mask
        assert mask.tolist() == fits(cpu_free, memory_free, pods_free, cpu, memory).tolist()


def test_fits_compiles_for_scalars_and_arrays() -> None:
    compiled = numba.njit(fits)
    columns = every_combination()
    expected = fits(*columns)
    assert 0 < expected.sum() < expected.size
    assert compiled(*columns).tolist() == expected.tolist()
    assert [bool(compiled(*row)) for row in zip(*columns, strict=True)] == expected.tolist()


def test_fits_works_over_batches_of_clusters() -> None:
    cpu_free = np.array([[1.0, 2.0], [3.0, 4.0]])
    plenty = np.full((2, 2), 9.0)
    assert fits(cpu_free, plenty, plenty, np.array([[2.0], [4.0]]), 0.0).tolist() == [[False, True], [False, True]]


def test_gpu_fits_works_over_batches_of_clusters() -> None:
    free = np.zeros((2, 3, 8))
    free[0, 0, :2] = 1000
    free[1, 2, 0] = 300
    gpus, milli = np.array([[2.0], [1.0]]), np.array([[1000.0], [300.0]])
    assert gpu_fits(free, gpus, milli).tolist() == [[True, False, False], [False, False, True]]
    assert gpu_fits(free, 0, 1000).all()


@pytest.mark.slow
def test_five_thousand_nodes_take_milliseconds(make_state) -> None:
    """A request must stay far below its deadline; the bound is loose because machines are busy."""
    nodes = NodeTable(a_node(f"n{i}", labels={"zone": f"z{i % 3}"}, taints=(DEDICATED,) * (i % 2)) for i in range(5000))
    state, pod = make_state(5000), a_pod(node_selector={"zone": "z0"}, tolerations=(Toleration(operator="Exists"),))
    took_s = []
    for _ in range(5):
        start = time.perf_counter()
        answer = feasibility(nodes, state, pod, UsageThresholds())
        took_s.append(time.perf_counter() - start)
    assert answer.mask.sum() == 1667
    assert min(took_s) < 0.02
