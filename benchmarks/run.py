"""How long a newcomer waits: the README's two commands in a fresh clone, on a warm package cache."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from agent.errors import InputError
from benchmarks.bars import Bar, measured

ROOT = Path(__file__).parents[1]
GIVE_UP_AFTER_S = 300.0
POLL_INTERVAL_S = 0.2
POD = {"cpu": "100m", "memory": "64Mi"}


def run(quick: bool, traces: Path | None) -> Iterable[Bar]:
    """The quick form leaves ``make test`` out."""
    with TemporaryDirectory() as folder:
        clone = Path(folder) / "pilotfish"
        _clone(clone)
        yield measured("make_run_first_score_s", first_score_s(clone))
        if not quick:
            yield measured("make_test_minutes", test_minutes(clone))


def first_score_s(clone: Path) -> float:
    """From `make run` in the clone to the first answer."""
    port = _free_port()
    began_s = time.monotonic()
    with _running(["make", "run", f"PORT={port}"], clone) as process:
        while time.monotonic() - began_s < GIVE_UP_AFTER_S and process.poll() is None:
            if _scores(port):
                return time.monotonic() - began_s
            time.sleep(POLL_INTERVAL_S)
    return float("inf")


def test_minutes(clone: Path) -> float:
    """`make test` with its set-up; infinite if a test fails."""
    return minutes_of(["make", "test"], clone)


def minutes_of(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> float:
    """Infinite if it fails: what failed took no time that counts."""
    began_s = time.monotonic()
    given = os.environ | dict(environment or {})
    outcome = subprocess.run(command, cwd=folder, env=given, capture_output=True, check=False)
    return (time.monotonic() - began_s) / 60 if outcome.returncode == 0 else float("inf")


def _clone(target: Path) -> None:
    command = ["git", "clone", "--quiet", str(ROOT), str(target)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0 or not (target / "Makefile").exists():
        raise InputError(f"the benchmark run clones the committed repository, which failed: {answer.stderr.strip()}")


@contextmanager
def _running(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command in a process group of its own, so that what it starts ends with it."""
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def _scores(port: int) -> bool:
    body = json.dumps({"requirements": POD}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/score", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return bool(json.load(answer)["scores"])
    except (urllib.error.URLError, ConnectionError):
        return False  # not listening yet, or not ready


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
