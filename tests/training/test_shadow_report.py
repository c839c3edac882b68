"""What Pilotfish would have chosen against what was chosen: small recordings whose answer is known."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import training.cli
from agent.errors import InputError
from agent.features import NODE_FEATURES, SCHEMA_VERSION
from envs.workloads.recording_records import Bound, Decision, NodeSpec, PodDemand
from envs.workloads.recording_writer import RecordingWriter
from training.shadow_costs import fullest, usd_per_hour
from training.shadow_report import report_of

SIZE = {"cpu_allocatable_millicores": 4000, "memory_allocatable_mib": 8192, "nic_mbps": 1000}
NODES = [NodeSpec(name=name, price_usd_per_hour=0.2, **SIZE) for name in ("a", "b")]
DEMAND = PodDemand(expected_cpu_millicores=500, expected_rx_mbps=100, expected_tx_mbps=0)


def row(**features):
    return {name: features.get(name, 0.0) for name in NODE_FEATURES}


def values(**features):
    return tuple(row(**features).values())


def decision(uid, chosen="a", at_s=100.0, features=("a", "b"), **other):
    rows = {"a": values(worst_expected_ratio=0.5), "b": values(worst_expected_ratio=0.9, empty=1.0)}
    return Decision(
        at_s=at_s,
        pod_uid=uid,
        demand=DEMAND,
        candidates=("a", "b"),
        scores=(2.0, 1.0),
        chosen=chosen,
        feature_nodes=features,
        node_features=tuple(rows[name] for name in features),
        **{"source": "policy", "mode": "shadow", "shadow": True} | other,
    )


@pytest.fixture
def recorded(tmp_path):
    def write(*records):
        with RecordingWriter(tmp_path / "rec", SCHEMA_VERSION, lambda: 100.0, NODES) as writer:
            for record in records:
                writer.write(record)
        return tmp_path / "rec"

    return write


def bound(uid, node, features=()):
    return Bound(at_s=101.0, pod_uid=uid, node=node, features=features)


def test_only_what_the_pod_adds_above_the_capacity_costs():
    over = row(cpu_expected_ratio=1.05, rx_expected_ratio=1.05)
    far_over = row(cpu_expected_ratio=3.0, rx_expected_ratio=3.0)
    by_hand = 0.40 * 0.2 + 0.25 * 50 * 3600 / 8000
    all_of_it = 0.40 * 0.5 + 0.25 * 100 * 3600 / 8000
    assert usd_per_hour(row(cpu_expected_ratio=0.99), NODES[0], DEMAND) == 0
    assert usd_per_hour(over, NODES[0], DEMAND) == pytest.approx(by_hand)
    assert usd_per_hour(far_over, NODES[0], DEMAND) == pytest.approx(all_of_it)


def test_zones_latency_and_an_empty_node_cost_too():
    import math

    zones = row(cross_zone_traffic=math.log1p(40 / 100))
    assert usd_per_hour(zones, NODES[0], DEMAND) == pytest.approx(0.02 * 40 * 3600 / 8000)
    assert usd_per_hour(row(latency_excess=0.1), NODES[0], DEMAND) == pytest.approx(0.18)
    assert usd_per_hour(row(empty=1.0), NODES[0], DEMAND) == pytest.approx(0.2)
    assert usd_per_hour(row(empty=1.0, rx_expected_ratio=3.0), None, DEMAND) == 0, "what is unknown counts as nothing"
    assert fullest(row(worst_expected_ratio=0.7)) == 0.7


def test_agreement_and_both_costs_in_all_by_source_and_over_time(recorded):
    report = report_of(
        recorded(
            *(decision("p1"), decision("p2"), decision("p3", at_s=200.0, source="least_allocated"), decision("p4")),
            *(bound("p1", "a"), bound("p2", "b"), bound("p3", "b")),
        )
    )
    assert (report.decided, report.never_bound) == (4, 1)
    assert report.all.agreement == pytest.approx(1 / 3)
    assert report.all.ours_usd == 0
    assert report.all.theirs_usd == pytest.approx(0.2 * 2 / 3)
    assert report.all.difference_usd == pytest.approx(-0.2 * 2 / 3)
    assert report.all.theirs_fullest == pytest.approx((0.5 + 0.9 + 0.9) / 3)
    assert report.by_source["policy"].agreement == 0.5
    assert report.by_source["least_allocated"].agreement == 0
    assert (report.over_time[0][0], report.over_time[0][1].pods) == (100.0, 2)
    assert sum(each.pods for _, each in report.over_time) == 3


def test_a_bound_node_brings_its_own_features_or_is_left_out_of_the_costs(recorded):
    report = report_of(
        recorded(
            *(decision("p1", features=("a",)), bound("p1", "b", values(worst_expected_ratio=0.8))),
            *(decision("p2", features=("a",)), bound("p2", "b")),
        )
    )
    assert (report.all.pods, report.all.compared) == (2, 1)
    assert report.all.theirs_fullest == 0.8


def test_a_pod_that_is_asked_about_again_counts_once_with_the_newest_answer(recorded):
    asked_twice = decision("p1", chosen="a"), decision("p1", chosen="b")
    report = report_of(recorded(*asked_twice, bound("p1", "b"), bound("p1", "b")))
    assert (report.decided, report.all.pods, report.all.agreement) == (1, 1, 1.0)


def test_a_recording_of_the_first_format_is_compared_without_costs(recorded):
    folder = recorded(decision("p1", features=()), bound("p1", "a"))
    assert report_of(folder).all.agreement == 1.0
    assert report_of(folder).all.ours_usd is None
    assert "no features recorded" in CliRunner().invoke(training.cli.app, ["shadow-report", str(folder)]).output


def test_nothing_to_compare_is_said(recorded):
    with pytest.raises(InputError, match="no pod was decided"):
        report_of(recorded(bound("stranger", "a")))
    with pytest.raises(InputError, match="1 pods were decided and none was bound"):
        report_of(recorded(decision("p1")))


def test_the_command_prints_a_table_json_and_a_picture(recorded, tmp_path):
    folder = recorded(decision("p1"), decision("p2", at_s=300.0), bound("p1", "a"), bound("p2", "b"))
    run = CliRunner().invoke
    text = run(training.cli.app, ["shadow-report", str(folder)]).output
    assert "50.0%" in text
    assert "nothing of it was measured" in text
    shown = json.loads(run(training.cli.app, ["shadow-report", str(folder), "--json"]).output)
    assert shown["all"]["agreement"] == 0.5
    plot = tmp_path / "shadow.png"
    assert run(training.cli.app, ["shadow-report", str(folder), "--plot", str(plot)]).exit_code == 0
    assert plot.read_bytes().startswith(b"\x89PNG")
    nowhere = ["shadow-report", str(folder), "--plot", str(tmp_path / "no" / "x.png")]
    with pytest.raises(InputError, match="cannot be written"):
        run(training.cli.app, nowhere, catch_exceptions=False)
