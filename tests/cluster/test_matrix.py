"""``make test-matrix`` says in one line what kept a version from being tested; the tests themselves run with it."""

from subprocess import CompletedProcess

import pytest

from benchmarks.report import Origin
from tests.cluster import matrix
from tests.cluster.building import MATRIX
from tests.cluster.gotool import GoMissing


@pytest.fixture
def kept(monkeypatch):
    rows = []
    monkeypatch.setattr(matrix, "origin", lambda: Origin("2026-01-02", "abc", 2))
    monkeypatch.setattr(matrix, "build_all", lambda programs: None)
    monkeypatch.setattr(matrix, "keep", lambda page, found, began: rows.extend(found))
    return rows


def test_tests_that_leave_no_report_are_a_row(kept, monkeypatch):
    monkeypatch.setattr(matrix.subprocess, "run", lambda command, env, check: CompletedProcess(command, 4))
    with pytest.raises(SystemExit, match="not every version passed"):
        matrix.main()
    assert {row["passed"] for row in kept} == {"pytest ended with code 4 and left no report"}
    assert len(kept) == 1 + len(MATRIX)


@pytest.mark.parametrize("error", [GoMissing, SystemExit])
def test_a_version_that_cannot_be_built_is_a_row_of_one_line(kept, monkeypatch, error):
    def build(programs):
        if programs[0] in MATRIX:
            raise error("no Go that is new enough\nand all that go said")

    monkeypatch.setattr(matrix, "build_all", build)
    monkeypatch.setattr(matrix, "row_of", lambda program: {"version": program, "tests": 6, "passed": 6})
    with pytest.raises(SystemExit, match="not every version passed"):
        matrix.main()
    assert [row["passed"] for row in kept] == [6, *["no Go that is new enough"] * len(MATRIX)]


def test_without_go_for_the_control_plane_itself_one_line_says_so(monkeypatch):
    def build(programs):
        raise GoMissing("no Go that is new enough on PATH")

    monkeypatch.setattr(matrix, "build_all", build)
    with pytest.raises(SystemExit, match=r"^test-matrix: no Go that is new enough on PATH$"):
        matrix.main()
