"""Nothing that the tests start outlives the test run, even one that is killed and can clean up nothing itself."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.cluster.api import eventually
from tests.cluster.processes import Processes

REPOSITORY = Path(__file__).parents[2]

# A run in the background of a shell ignores Ctrl-C, and so do its children: this one heeds it again.
PYTEST = """
import signal, sys, pytest
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(pytest.main())
"""
IMPORTS = """
from pathlib import Path
from tests.cluster.conftest import api_server, new_processes, processes
from tests.cluster.test_cleaning_up import a_waiting_run, tell_and_wait
from tests.prometheus import prometheus_over
"""
CONTROL_PLANE = """
def test_waits(api_server):
    pids = [daemon.process.pid for daemon in api_server.processes.daemons]
    tell_and_wait(Path(__file__).parent, pids, api_server.folder / "etcd")
"""
PROMETHEUS = """
def test_waits(tmp_path):
    with prometheus_over(tmp_path, {}) as server:
        tell_and_wait(Path(__file__).parent, [server.daemon.process.pid], tmp_path / "none")
"""
RUN_IN_A_RUN = """
def test_waits(new_processes, tmp_path):
    with new_processes("run") as processes:
        _, told = a_waiting_run(processes, tmp_path)
        tell_and_wait(Path(__file__).parent, told["pids"], told["data"])
"""


def tell_and_wait(folder, pids, data):
    """In a run that waits: what is to be gone after its end, the run itself among it."""
    told = {"pids": [os.getpid(), *pids], "data": str(data)}
    (folder / "partial").write_text(json.dumps(told))
    (folder / "partial").rename(folder / "told.json")
    time.sleep(600)


def a_waiting_run(processes: Processes, folder: Path, test: str = CONTROL_PLANE, *options: str):
    """Another pytest in the middle of a test, and what that has told."""
    (folder / "test_waits.py").write_text(IMPORTS + test)
    options = ["-q", "-p", "no:cacheprovider", "--basetemp", str(folder / "base"), *options]
    command = ["-c", PYTEST, *options, str(folder / "test_waits.py")]
    run = processes.start("pytest", Path(sys.executable), command, {"PYTHONPATH": str(REPOSITORY)})
    told = folder / "told.json"
    run.wait_until(told.exists)
    return run, json.loads(told.read_text())


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.timeout(150)
@pytest.mark.parametrize(
    ("test", "options", "end"),
    [
        pytest.param(CONTROL_PLANE, (), signal.SIGKILL, id="killed"),
        pytest.param(CONTROL_PLANE, (), signal.SIGTERM, id="terminated"),
        pytest.param(CONTROL_PLANE, (), signal.SIGINT, id="interrupted"),
        pytest.param(CONTROL_PLANE, ("-n", "2"), signal.SIGKILL, id="killed with workers"),
        pytest.param(PROMETHEUS, (), signal.SIGKILL, id="killed with Prometheus"),
        pytest.param(RUN_IN_A_RUN, (), signal.SIGKILL, id="killed with a run of its own"),
    ],
)
def test_a_run_that_is_ended_leaves_no_process_and_no_data(new_processes, tmp_path, test, options, end):
    with new_processes("ended-run") as processes:
        run, told = a_waiting_run(processes, tmp_path, test, *options)
        pids = told["pids"]
        assert len(pids) > 1
        assert all(is_running(pid) for pid in pids)
        run.process.send_signal(end)
        run.process.wait(timeout=30)
        eventually(lambda: not any(is_running(pid) for pid in pids), "every process gone", 30.0)
        eventually(lambda: not Path(told["data"]).exists(), "etcd's data gone", 5.0)
