from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from agent.errors import InputError
from agent.heuristics.network_traffic import NetworkTraffic
from agent.heuristics.registry import SCORERS, scorer_by_name
from agent.heuristics.thesis_policies import LatencyAwareMostPods
from agent.scorer import METRIC_GROUPS

DOCUMENT = Path(__file__).parents[3] / "docs" / "heuristics.md"


@pytest.mark.parametrize("name", SCORERS)
def test_every_scorer_is_found_by_its_own_name(name) -> None:
    scorer = scorer_by_name(name)
    assert scorer.name == name
    assert set(scorer.needs) <= set(METRIC_GROUPS)


@pytest.mark.parametrize(
    ("spelling", "kind"),
    [("NetworkTraffic", NetworkTraffic), ("network-traffic", NetworkTraffic), ("P0", LatencyAwareMostPods)],
)
def test_spelling_of_the_original_is_understood(spelling, kind) -> None:
    assert isinstance(scorer_by_name(spelling), kind)


def test_unknown_name_is_refused_with_the_choices() -> None:
    with pytest.raises(InputError, match=r"unknown scorer 'fastest'.*random.*expected_utilisation"):
        scorer_by_name("fastest")


def test_document_lists_exactly_the_registry_with_all_columns() -> None:
    rows = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if re.match(r"\| `\w+` \|", line)]
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    assert [cell[0].strip("` ") for cell in cells] == list(SCORERS)
    assert all(len(row) == 4 and all(row) for row in cells)


@pytest.mark.parametrize("name", SCORERS)
def test_every_scorer_names_the_system_it_comes_from(name) -> None:
    kind = type(scorer_by_name(name))
    assert "From " in f"{sys.modules[kind.__module__].__doc__} {kind.__doc__}"
