"""Logs of all parts are there when a test failed, and only then."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
RUN = """
from pathlib import Path

def test_speaks(processes):
    processes.start("echo", Path("/bin/echo"), ["heard"]).process.wait()
    assert {passes}
"""


def run(folder: Path, passes: bool) -> str:
    """What a pytest said that started a program and then passed, or not."""
    (folder / "test_speaks.py").write_text(RUN.format(passes=passes))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.cluster.conftest", "-p", "no:cacheprovider"]
    command += ["--basetemp", str(folder / "base"), str(folder / "test_speaks.py")]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
def test_a_failed_run_keeps_its_logs_and_says_where(tmp_path):
    said = re.search(r"logs of all parts are kept in (\S+)", run(tmp_path, False))
    assert said
    assert (Path(said[1]) / "echo.log").read_text() == "heard\n"


@pytest.mark.slow
def test_a_run_without_failure_leaves_no_logs(tmp_path):
    assert "1 passed" in run(tmp_path, True)
    assert list((tmp_path / "base").rglob("*.log")) == []
