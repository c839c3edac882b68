from __future__ import annotations

import numpy as np
import pytest

from agent.heuristics.rescheduler import Rescheduler
from agent.quantise import quantise_percent

NAN = np.nan


def percent(cpu, memory):
    return {
        "nodes": len(cpu),
        "cpu_used_millicores": np.multiply(cpu, 40.0),
        "memory_used_mib": np.multiply(memory, 80.0),
        "cpu_age_s": np.zeros(len(cpu)),
        "memory_age_s": np.zeros(len(cpu)),
    }


def test_golden_scores_of_the_document(score) -> None:
    values = score(Rescheduler(), percent([50, 20, 5, 30], [25, 10, 5, 10]))
    assert values == pytest.approx([60, 94, 100, 78])


def test_golden_scores_keep_their_levels_on_the_wire(score) -> None:
    values = score(Rescheduler(), percent([50, 20, 5], [25, 10, 5]))
    assert quantise_percent(values, np.ones(3, dtype=np.bool_)).tolist() == [6, 9, 10]


def test_bonus_needs_both_below_thirty(score) -> None:
    values = score(Rescheduler(), percent([30, 29, 29], [29, 30, 29]))
    assert values == pytest.approx([70.4, 70.6, 81.0])


def test_weights_of_zero_are_honoured(score) -> None:
    scorer = Rescheduler(cpu_weight=0, memory_weight=1, load_balance_bonus=0)
    assert score(scorer, percent([50, 5, 100], [25, 5, 0])) == pytest.approx([75, 95, 100])


def test_overload_does_not_go_below_zero(score) -> None:
    assert score(Rescheduler(), percent([150, 100], [150, 100])) == pytest.approx([0, 0])


@pytest.mark.parametrize(("used", "age_s"), [(NAN, np.inf), (NAN, 0.0), (0.0, 181.0)])
def test_requests_stand_in_for_a_missing_or_old_metric(score, used, age_s) -> None:
    state = percent([20, 20], [10, 10])
    state["cpu_used_millicores"][0], state["cpu_age_s"][0] = used, age_s
    state["cpu_requested_millicores"] = [2000, 2000]  # 50 %
    assert score(Rescheduler(), state) == pytest.approx([66, 94])  # 50 x 0.6 + 90 x 0.4, no bonus


def test_the_pod_itself_is_not_counted(score) -> None:
    pod = {"cpu_request_millicores": 4000, "expected_cpu_millicores": 4000}
    assert score(Rescheduler(), percent([50], [25]), pod) == pytest.approx([60])
