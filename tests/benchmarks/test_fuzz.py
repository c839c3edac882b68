"""The fuzzing counts what it did."""

from __future__ import annotations

import pytest

from benchmarks.fuzz import Part, bars, part


def test_parts_are_added_up():
    cases, failures = bars([Part(0, 60_000, 0), Part(1, 50_000, 2)])
    assert (cases.value, cases.met, cases.beside) == (110_000, True, {"seeds": [0, 1]})
    assert (failures.value, failures.met) == (2, False)


@pytest.mark.slow
def test_every_case_of_every_property_is_counted():
    done = part(seed=3, cases=10)
    assert done.failed == 0
    assert 6 * 10 <= done.cases <= 6 * 10 + 8 * 10, "six properties, and eight routes with ten at the most"
