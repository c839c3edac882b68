"""Trimaran's two scorers: goldens worked out by hand from the formulas and defaults of scheduler-plugins."""

from __future__ import annotations

import numpy as np
import pytest

from agent.errors import InputError
from agent.heuristics.load_variation_risk_balancing import LoadVariationRiskBalancing
from agent.heuristics.target_load_packing import TargetLoadPacking

NAN = np.nan
CPU_POD = {"cpu_request_millicores": 400}  # predicted: 600m, 15 % of 4000m


def used_percent(*percents):
    return {"nodes": len(percents), "cpu_used_millicores": np.multiply(percents, 40.0)}


def test_packing_rises_to_the_target_and_falls_beyond_it(score) -> None:
    # 25 % -> 60 x 25/40 + 40; 40 % -> 100; 70 % -> 40 x 30/60; 100 % -> 0; 105 % -> 0
    values = score(TargetLoadPacking(), used_percent(10, 25, 55, 85, 90), CPU_POD)
    assert values == pytest.approx([77.5, 100, 20, 0, 0])


def test_packing_counts_placements_that_metrics_do_not_show(score) -> None:
    state = used_percent(10, 10) | {"pending_cpu_millicores": [600, 0]}
    assert score(TargetLoadPacking(), state, CPU_POD) == pytest.approx([100, 77.5])


def test_packing_expects_one_core_of_a_pod_without_a_request(score) -> None:
    assert score(TargetLoadPacking(), used_percent(5)) == pytest.approx([85])  # 30 %


def test_packing_shuns_a_node_without_metrics_as_upstream_does(score) -> None:
    assert score(TargetLoadPacking(), used_percent(10, NAN), CPU_POD) == pytest.approx([77.5, 0])


def test_packing_target_can_be_set(score) -> None:
    values = score(TargetLoadPacking(target_percent=50), used_percent(10, 60), CPU_POD)
    assert values == pytest.approx([75, 25])  # 50 x 25/50 + 50; 50 x 25/50
    with pytest.raises(InputError, match="target_percent"):
        TargetLoadPacking(target_percent=100)


# CPU: mu = (1200 + 400) / 4000 = 0.4, sigma = 640 / 4000 = 0.16. Memory: mu = (1600 + 800) / 8000 = 0.3.
RISK_STATE = {"cpu_used_millicores": [1200], "cpu_std_millicores": [640], "memory_used_mib": [1600], "nodes": 1}
RISK_POD = {"cpu_request_millicores": 400, "memory_request_mib": 800}


@pytest.mark.parametrize(
    ("scorer", "expected"),
    [
        (LoadVariationRiskBalancing(), 72),  # (0.4 + 0.16) / 2
        (LoadVariationRiskBalancing(margin=2), 64),  # (0.4 + 0.32) / 2
        (LoadVariationRiskBalancing(sensitivity=2), 60),  # (0.4 + sqrt(0.16)) / 2
        (LoadVariationRiskBalancing(margin=100), 30),  # sigma at most 1
        (LoadVariationRiskBalancing(margin=0), 80),
    ],
    ids=repr,
)
def test_risk_is_half_of_mean_and_deviation(score, scorer, expected) -> None:
    assert score(scorer, RISK_STATE, RISK_POD) == pytest.approx([expected])


def test_risk_is_that_of_the_worse_resource(score) -> None:
    assert score(LoadVariationRiskBalancing(), RISK_STATE | {"memory_used_mib": [5600]}, RISK_POD) == pytest.approx(
        [60]
    )


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ({"memory_used_mib": [NAN]}, 72),
        ({"cpu_used_millicores": [NAN]}, 85),
        ({"cpu_std_millicores": [NAN]}, 80),
        ({"cpu_used_millicores": [NAN], "memory_used_mib": [NAN]}, 0),
    ],
)
def test_risk_without_a_metric_is_as_upstream(score, missing, expected) -> None:
    assert score(LoadVariationRiskBalancing(), RISK_STATE | missing, RISK_POD) == pytest.approx([expected])


@pytest.mark.parametrize(("std_millicores", "expected"), [(9000, 0), (0, 50)])
def test_risk_counts_an_overload_as_full(score, std_millicores, expected) -> None:
    state = RISK_STATE | {"cpu_used_millicores": [9000], "cpu_std_millicores": [std_millicores]}
    assert score(LoadVariationRiskBalancing(), state, RISK_POD) == pytest.approx([expected])


@pytest.mark.parametrize("bad", [{"margin": -1}, {"sensitivity": 0}])
def test_bad_risk_settings_are_refused(bad) -> None:
    with pytest.raises(InputError, match=next(iter(bad))):
        LoadVariationRiskBalancing(**bad)
