"""No part of the control plane outlives the test run, even one that is killed and can clean up nothing itself."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.api import eventually
from tests.cluster.processes import heed_ctrl_c

REPOSITORY = Path(__file__).parents[2]

RUN_THAT_WAITS = """
import json, os, time
from pathlib import Path
from tests.cluster.conftest import api_server, new_processes, processes

def test_waits(api_server):
    pids = [daemon.process.pid for daemon in api_server.processes.daemons]
    told = Path({told!r})
    told.with_suffix(".partial").write_text(json.dumps({{"pids": pids, "folder": str(api_server.folder)}}))
    told.with_suffix(".partial").rename(told)
    time.sleep(600)
"""


@pytest.fixture
def waiting_run(tmp_path):
    """Another pytest, in the middle of a test with a control plane of its own."""
    test, told = tmp_path / "test_waits.py", tmp_path / "told.json"
    test.write_text(RUN_THAT_WAITS.format(told=str(told)))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "base")]
    options = {"cwd": REPOSITORY, "stdout": subprocess.DEVNULL, "preexec_fn": heed_ctrl_c}
    with subprocess.Popen([*command, str(test)], **options) as process:
        eventually(told.exists, "a control plane of another pytest", within_s=50.0)
        yield process, json.loads(told.read_text())
        process.kill()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_ended_leaves_no_process_and_no_data(waiting_run, end):
    process, started = waiting_run
    assert len(started["pids"]) == 2
    assert all(is_running(pid) for pid in started["pids"])
    process.send_signal(end)
    process.wait(timeout=30)
    eventually(lambda: not any(is_running(pid) for pid in started["pids"]), "etcd and kube-apiserver gone", 15.0)
    eventually(lambda: not (Path(started["folder"]) / "etcd").exists(), "etcd's data gone", 5.0)
