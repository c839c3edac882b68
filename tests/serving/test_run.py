"""The sidecar as a process: what a user and a kubelet see."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from tests.serving.leaving import WITHIN_S, seconds_to_leave

HEAVY = ("gymnasium", "numba", "torch", "stable_baselines3", "matplotlib", "pandas", "polars")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def pilotfish(*arguments: str, **environment: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "pilotfish", *arguments]
    given = {"env": os.environ | environment}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **given)


def ask(port: int, path: str, body: dict | None = None) -> dict:
    content = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", content, timeout=5) as reply:
        return json.load(reply)


def wait_until_ready(process: subprocess.Popen, port: int) -> None:
    until_s = time.monotonic() + 40.0
    while time.monotonic() < until_s:
        assert process.poll() is None, process.stderr.read()
        try:
            ask(port, "/readyz")
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("never ready")


@pytest.fixture
def port():
    return free_port()


@pytest.fixture
def demo(port, model_folder):
    process = pilotfish("demo", "--port", str(port), PILOTFISH_MODEL__FOLDER=str(model_folder))
    wait_until_ready(process, port)
    yield process
    process.kill()
    process.communicate()


def test_the_demo_scores_a_pod_and_leaves_within_two_seconds_of_a_term(demo, port):
    reply = ask(port, "/v1/score", {"requirements": {"cpu": "250m", "memory": "64Mi", "network_mbps": 20}})
    assert reply["source"] == "policy"
    assert reply["best"] == reply["scores"][0]["node"]
    assert reply["ages_s"]["network"] < 90
    demo.send_signal(signal.SIGTERM)
    assert seconds_to_leave(demo.pid) < WITHIN_S


def wait_for(condition, within_s=20.0):
    until_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until_s, "waited too long"
        time.sleep(0.05)


def test_settings_change_by_a_signal_or_by_the_file_alone_and_a_bad_file_changes_nothing(port, tmp_path):
    file = tmp_path / "pilotfish.yaml"
    file.write_text("ladder: {deadline_ms: 41}\nmodel: {folder: none}\nreload: {every_s: 600}\nlogging: {format: json}")
    process = pilotfish("serve", "--port", str(port), "--config", str(file))
    try:
        wait_until_ready(process, port)

        def deadline_ms():
            return ask(port, "/v1/score", {"requirements": {}})["deadline_ms"]

        assert deadline_ms() == 41
        file.write_text(file.read_text().replace("41", "42"))
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: deadline_ms() == 42)
        file.write_text(file.read_text().replace("42", "never"))
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: ask(port, "/v1/state")["settings"]["problem"])
        assert "ladder.deadline_ms" in ask(port, "/v1/state")["settings"]["problem"]
        assert deadline_ms() == 42
    finally:
        process.terminate()
        _, said = process.communicate(timeout=10)
    lines = [json.loads(line) for line in said.splitlines()]
    assert any("the settings stay as they were" in line["message"] for line in lines)
    assert {"at", "level", "logger", "message"} <= set(lines[0])


def test_a_changed_file_is_noticed_without_a_signal(port, tmp_path):
    file = tmp_path / "pilotfish.yaml"
    file.write_text("ladder: {deadline_ms: 41}\nmodel: {folder: none}\nreload: {every_s: 0.05}")
    process = pilotfish("serve", "--port", str(port), PILOTFISH_CONFIG=str(file))
    try:
        wait_until_ready(process, port)
        file.write_text(file.read_text().replace("41", "4242"))
        wait_for(lambda: ask(port, "/v1/score", {"requirements": {}})["deadline_ms"] == 4242)
    finally:
        process.kill()
        process.communicate()


def test_a_port_that_is_taken_is_one_line_and_exit_code_2(port):
    with socket.create_server(("127.0.0.1", port)):
        process = pilotfish("demo", "--port", str(port))
        _, said = process.communicate(timeout=40)
    assert process.returncode == 2
    assert said.splitlines()[-1].startswith(f"pilotfish: cannot listen on 127.0.0.1 port {port}")
    assert "Traceback" not in said


def test_an_unknown_scenario_is_one_line_and_exit_code_2(port):
    process = pilotfish("demo", "--port", str(port), "--scenario", "nowhere")
    _, said = process.communicate(timeout=40)
    assert process.returncode == 2
    assert "microservices" in said
    assert "Traceback" not in said


def test_the_live_path_loads_no_training_library():
    look = f"import serving.run, sys; sys.exit(', '.join(m for m in {HEAVY} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=40, check=False)
    assert done.stderr.strip() == ""
