"""Generated worlds look like the clusters that were measured, scenario by scenario, as figures.yaml says."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from envs.workloads.calibration import FIGURES_FILE, known_figures
from envs.workloads.scenario import load_scenario, scenario_names
from envs.workloads.world_figures import world_figures

PAGE = (Path(__file__).parents[3] / "docs" / "traces.md").read_text(encoding="utf-8")
RULES: dict[str, list[dict[str, Any]]] = yaml.safe_load(FIGURES_FILE.read_text(encoding="utf-8"))["worlds"]
SCENARIOS = [name for name in scenario_names() if name != "deployments"]  # the world of a thesis takes no figure


def scenarios_of(rule: dict[str, Any]) -> list[str]:
    return SCENARIOS if rule["in"] == "all" else rule["in"]


COMPARED = [
    pytest.param(scenario, statistic, rule, id=f"{scenario}-{statistic}")
    for statistic, rules in RULES.items()
    for rule in rules
    for scenario in scenarios_of(rule)
    if "differs" not in rule
]


@cache
def figures_of(scenario: str) -> dict[str, float]:
    return world_figures(load_scenario(scenario))


@pytest.mark.parametrize(("scenario", "statistic", "rule"), COMPARED)
def test_world_takes_its_figure(scenario: str, statistic: str, rule: dict[str, Any]) -> None:
    speed, within = rule.get("times_as_fast", 1), rule["within"]
    low, high = (known_figures()[rule.get("at", rule.get(end))] / speed for end in ("from", "to"))
    assert low * (1 - within) - 1e-9 <= figures_of(scenario)[statistic] <= high * (1 + within) + 1e-9


@pytest.mark.parametrize("statistic", RULES)
def test_every_scenario_takes_a_figure_or_says_why_not(statistic: str) -> None:
    assert sorted(name for rule in RULES[statistic] for name in scenarios_of(rule)) == sorted(SCENARIOS)


@pytest.mark.parametrize("statistic", RULES)
def test_page_says_the_same(statistic: str) -> None:
    for rule in RULES[statistic]:
        assert f"\n{row_of(statistic, rule)}\n" in PAGE


def row_of(statistic: str, rule: dict[str, Any]) -> str:
    scenarios = "all" if rule["in"] == "all" else ", ".join(rule["in"])
    if "differs" in rule:
        return f"| `{statistic}` | {scenarios} | {rule['differs']} |"
    figure = f"`{rule['at']}`" if "at" in rule else f"`{rule['from']}` to `{rule['to']}`"
    speed = f", {rule['times_as_fast']} times as fast" if "times_as_fast" in rule else ""
    return f"| `{statistic}` | {figure}{speed} | {rule['within']:.0%} | {scenarios} |"


def test_page_has_no_other_rows() -> None:
    part = PAGE.partition("### What generated worlds take")[2].partition("### What the traces say of the dynamics")[0]
    assert part.count("\n| `") == sum(map(len, RULES.values()))


def test_figures_of_a_world_are_those_it_was_made_with(tiny_scenario) -> None:
    parts = {
        "apps": {
            "cpu_use_ratio": {"low": 0.2, "high": 0.4},
            "use_jitter": 0,
            "receive_share": {"low": 0.3, "high": 0.3},
        },
        "loads": {"background_idle": 0.25, "background_correlation": 1, "app_sigma": 0.5, "app_memory_s": 100},
        "gpus": {"share": 0.6, "fractional": 0.5},
    }
    figures = world_figures(tiny_scenario(**parts), episodes=200)
    expected = {
        "cpu_use.mean": 0.3,
        "traffic.rx_share": 0.3,
        "background_nic.idle_share": 0.25,
        "app_load.cv.p50": np.sqrt(np.exp(0.25) - 1),
        "app_load.correlation_time_s.p50": 100,
        "background_nic.cpu_correlation.p50": 1,
        "no_gpu_share": 0.4,
        "shared_gpu_share": 0.3,
        "lifetime.p50_s": 60,
    }
    assert {name: figures[name] for name in expected} == pytest.approx(expected, rel=0.15)
