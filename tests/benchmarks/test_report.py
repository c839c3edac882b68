from __future__ import annotations

import json
import sys
from datetime import date

import pytest

from agent.errors import InputError
from benchmarks import report
from benchmarks.bars import goals, measured
from benchmarks.control_plane import control_plane

BARS = (measured("batch_over_reference", 63.25, clusters=8), measured("cost_growth_exponent", 1.2))


@pytest.fixture
def fake_benchmark(monkeypatch):
    monkeypatch.setattr(report, "run", lambda name, *, quick, traces: iter(BARS))


def test_json_is_one_object_a_line_for_each_bar(fake_benchmark, capsys):
    report.show("env", quick=True, as_json=True, traces=None)
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert first == {
        "bar": "batch_over_reference",
        "value": 63.25,
        "unit": "times",
        "comparison": "at_least",
        "goal": 50.0,
        "met": True,
        "beside": {"clusters": 8},
    }
    assert second["met"] is False


def test_table_shows_value_goal_and_verdict(fake_benchmark, capsys):
    report.show("env", quick=False, as_json=False, traces=None)
    shown = capsys.readouterr().out
    assert "63.25 times" in shown
    assert "≥ 50" in shown
    assert "no" in shown


def test_value_that_could_not_be_measured_is_null_and_meets_nothing(monkeypatch, capsys):
    bar = measured("make_test_minutes", float("inf"))
    monkeypatch.setattr(report, "run", lambda name, *, quick, traces: iter([bar]))
    report.show("run", quick=False, as_json=True, traces=None)
    shown = json.loads(capsys.readouterr().out)
    assert (shown["value"], shown["met"]) == (None, False)
    report.show("run", quick=False, as_json=False, traces=None)
    assert "none" in capsys.readouterr().out


def test_unknown_benchmark_is_refused_with_the_choices(monkeypatch):
    monkeypatch.setattr(report, "names", lambda: ["env", "fgd"])
    with pytest.raises(InputError, match="no benchmark speed; there are env, fgd"):
        report.run("speed")


def test_page_shows_the_newest_result_with_day_and_commit_and_every_goal(tmp_path):
    report.keep("env", [measured("batch_over_reference", 1.0)], day=date(2026, 1, 2), commit="feedbeef", docs=tmp_path)
    report.keep("env", BARS, day=date(2026, 1, 3), commit="0123abc", docs=tmp_path)
    page = report.write_page(tmp_path).read_text()
    assert "2026-01-03, commit 0123abc" in page
    assert "feedbeef" not in page
    assert "| batch_over_reference | ≥ 50 | 63.25 times | yes | clusters 8 |" in page
    assert all(f"| {bar} | " in page for bar in goals())


def test_a_table_beside_a_bar_is_kept_and_not_shown(tmp_path):
    bar = measured("batch_over_reference", 63.25, clusters=8, forms={"policy": {"cpu_ms": 1.5}})
    kept = report.keep("env", [bar], day=date(2026, 1, 3), commit="0123abc", docs=tmp_path)
    assert json.loads(kept.read_text())["beside"]["forms"] == {"policy": {"cpu_ms": 1.5}}
    assert "| yes | clusters 8 |" in report.write_page(tmp_path).read_text()


def test_a_benchmark_of_a_real_control_plane_says_in_one_line_that_it_needs_the_repository(monkeypatch):
    """Its harness is tests/cluster, which is nowhere but there."""
    monkeypatch.setattr(report, "names", lambda: ["control_plane"])
    monkeypatch.delitem(sys.modules, "benchmarks.control_plane", raising=False)
    monkeypatch.setitem(sys.modules, "tests.cluster.apiserver", None)
    with pytest.raises(InputError, match=r"^the benchmark control_plane needs tests/cluster of the repository: .*$"):
        report.run("control_plane")


def test_a_control_plane_that_is_not_built_is_one_line_that_names_the_command(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(InputError, match="not built yet: run `make cluster-tools`"), control_plane():
        pass
