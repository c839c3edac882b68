"""What long runs keep says which code they measured."""

import json
from subprocess import CompletedProcess

import pytest

from benchmarks import report
from tests.cluster.results import SOAK, keep


@pytest.fixture
def tree(monkeypatch):
    """What git says of the tree, one word after the other."""
    words = iter(["abc", "abc-dirty"])
    monkeypatch.setattr(report.subprocess, "run", lambda *_, **__: CompletedProcess([], 0, next(words), ""))
    report.measured_commit.cache_clear()
    yield
    report.measured_commit.cache_clear()


def test_results_name_the_commit_as_it_was_when_the_run_began(tree, tmp_path):
    began = report.origin()
    keep(SOAK, [dict.fromkeys(SOAK.columns, 1)], began, tmp_path)
    lines = tmp_path / "benchmarks" / f"{began.date}-soak.jsonl"
    assert json.loads(lines.read_text())["commit"] == "abc"
    assert f"{began.date}, commit abc, " in (tmp_path / "benchmarks" / "soak.md").read_text()


def test_what_a_run_writes_does_not_make_its_commit_another(tree):
    assert (report.measured_commit(), report.origin().commit) == ("abc", "abc")
