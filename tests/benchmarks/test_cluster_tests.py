from __future__ import annotations

import math

import pytest

from benchmarks import cluster_tests


@pytest.fixture
def commands(monkeypatch):
    """What would have been run, each in half a minute."""
    run: list[list[str]] = []

    def minutes(command, environment):
        run.append(list(command))
        return 0.5

    monkeypatch.setattr(cluster_tests, "_minutes", minutes)
    return run


def test_the_quick_form_builds_nothing(commands):
    (warm,) = cluster_tests.run(quick=True)
    assert (warm.bar, warm.value, warm.met) == ("cluster_tests_warm_minutes", 0.5, True)
    assert [command[1] for command in commands] == ["pytest"]


def test_cold_is_the_building_and_the_tests(commands, monkeypatch):
    monkeypatch.setattr(cluster_tests, "building_minutes", lambda: 24.75)
    warm, cold = cluster_tests.run(quick=False)
    assert (warm.met, cold.value, cold.met) == (True, 25.25, False)


def test_a_build_that_leaves_no_program_has_no_time(commands):
    assert math.isinf(cluster_tests.building_minutes())


def test_what_fails_has_no_time():
    assert math.isinf(cluster_tests._minutes(["-c", "raise SystemExit(1)"], {}))
    assert cluster_tests._minutes(["-c", "import os; assert os.environ['X'] == '1'"], {"X": "1"}) < 1.0
