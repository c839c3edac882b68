from __future__ import annotations

import time

import pytest
from fastapi.testclient import TestClient

from benchmarks.extender.server import constant
from benchmarks.report import Origin
from benchmarks.scheduler import QUICK, SIZES, bars
from benchmarks.throughput.forms import CONSTANT, FORMS, FULL_NODES, LATE, NONE, POLICY, RANK_ONLY, configuration_of
from benchmarks.throughput.measuring import NodePages
from benchmarks.throughput.page import write_page
from benchmarks.throughput.rounds import Round
from tests.cluster.sidecar import Sidecar

SPEEDS = {NONE: 400.0, CONSTANT: 200.0, LATE: 100.0, POLICY: 190.0, RANK_ONLY: 230.0, FULL_NODES: 20.0}
OTHERS_CPU_MS = {"etcd": 1.0, "kube-apiserver": 2.5, "idle": 0.01}


def rounds_at(nodes: int, count: int = 3) -> list[Round]:
    """The middle one of the rounds has the speed above."""
    return [
        Round(nodes, form, 100, speed * (0.5 + 0.5 * number), speed / 2, 0.6, 2.0, 1.0, 0.5, OTHERS_CPU_MS, 230.0, 0.99)
        for number in range(count)
        for form, speed in SPEEDS.items()
    ]


def test_medians_are_compared_and_the_speeds_stand_beside():
    over_constant, over_none = bars(500, rounds_at(500))
    assert (over_constant.bar, over_constant.value) == ("policy_over_constant_500_nodes", pytest.approx(0.95))
    assert (over_none.bar, over_none.value, over_none.met) == ("policy_over_no_extender_500_nodes", 0.475, False)
    assert over_constant.beside["constant_extender"] == 200.0
    assert over_constant.beside["policy_until_running"] == 95.0
    assert (over_constant.beside["candidates"], over_constant.beside["policy_share"]) == (230.0, 0.99)


def test_all_that_was_measured_of_every_form_is_kept_with_the_bars():
    forms = next(bars(100, rounds_at(100))).beside["forms"]
    late = "constant_extender_2_ms_late"
    ours = {"policy", "policy_rank_only", "policy_full_nodes"}
    assert forms.keys() == {"no_extender", "constant_extender", late, *ours}
    policy = forms["policy"]
    assert (policy["algorithm_ms"], policy["scheduler_cpu_ms"], policy["extender_cpu_ms"]) == (2.0, 1.0, 0.5)
    assert policy["others_cpu_ms"] == OTHERS_CPU_MS
    assert [each["pods_per_s"] for each in policy["rounds"]] == [95.0, 190.0, 285.0]


def test_the_constant_extender_is_asked_as_the_sidecar_is():
    nobody = Sidecar(None, 8000)
    constant, late, policy, full = (
        configuration_of(form, nobody)["extenders"] for form in (CONSTANT, LATE, POLICY, FULL_NODES)
    )
    assert constant == late == policy
    assert "filterVerb" not in configuration_of(RANK_ONLY, nobody)["extenders"][0]
    assert (policy[0]["nodeCacheCapable"], full[0]["nodeCacheCapable"]) == (True, False)


def test_a_late_extender_waits_and_then_answers_as_the_constant_one_does():
    asked = {"Pod": {}, "Nodes": None, "NodeNames": ["node-1", "node-2"]}
    began_s = time.monotonic()
    at_once, late = (TestClient(constant(10, ms)).post("/extender/prioritize", json=asked) for ms in (0.0, 200.0))
    assert time.monotonic() - began_s >= 0.2
    assert at_once.json() == late.json() == [{"Host": name, "Score": 5} for name in asked["NodeNames"]]


def test_every_size_has_a_goal():
    for size in (*SIZES, *QUICK):
        assert next(bar.bar for bar in bars(size.nodes, rounds_at(size.nodes))).endswith(f"_{size.nodes}_nodes")


def test_the_page_has_every_form_of_every_size_and_a_plot(tmp_path):
    page = write_page([*rounds_at(100), *rounds_at(5000)], Origin("2026-01-02", "abc", 2), tmp_path).read_text()
    assert "`pilotfish benchmark scheduler`: 2026-01-02, commit abc, 2 cores;" in page
    assert all(f"| {nodes} | {form} | **{SPEEDS[form]:.0f}** (" in page for nodes in ("100", "5,000") for form in FORMS)
    assert f"| {LATE} | **100** (50, 100, 150) | 50 | 60% | 2 |" in page
    assert "| 3.51 | kube-apiserver 2.50, etcd 1.00 |" in page
    assert (tmp_path / "scheduler.png").read_bytes().startswith(b"\x89PNG")


def test_counters_of_the_nodes_rise_and_none_is_idle_or_full():
    pages = NodePages(["node-1", "node-2"])
    before, after = pages.text(), pages.text()
    (first, second) = (
        float(next(line for line in text.splitlines() if line.startswith("node_network_receive")).split()[-1])
        for text in (before, after)
    )
    assert second > first > 0
