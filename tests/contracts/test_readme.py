"""What a newcomer copies from the README works as it stands there."""

from __future__ import annotations

import re
import shlex
import sys
import time
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import pilotfish
from serving.run import sidecar_app
from serving.settings import Settings

TEXT = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(line, comments=True)
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    for line in re.split(r"\n(?=\S)(?!\})", block.strip())
]
PLAYED = [command[1:] for command in COMMANDS if command[0] == ".venv/bin/pilotfish"]
PLAYED = [command[: command.index(">")] if ">" in command else command for command in PLAYED]
CURLS = [command for command in COMMANDS if command[0] == "curl"]
LONG = {
    "headroom",
    "benchmark",
    "train",
    "evaluate",
}  # minutes: here only their options are read; tests of their own run the work


def test_every_command_is_of_a_kind_that_is_run_here_or_elsewhere():
    """`make run` and `make test` are run by `pilotfish benchmark run`, the tests of serving.run and CI.

    tests/image builds the image, tests/cluster gives what is applied to a real API server.
    """
    others = [command for command in COMMANDS if command[:1] != [".venv/bin/pilotfish"] and command not in CURLS]
    beside = [command for command in others if command[0] == "kubectl"]
    assert [command for command in others if command not in beside] == [
        ["make", "run"],
        ["make", "test"],
        ["make", "image"],
    ]
    assert beside[0] == ["kubectl", "apply", "-f", "sidecar.yaml"]


def wait_until_ready(client: TestClient) -> None:
    until_s = time.monotonic() + 30.0
    while client.get("/readyz").status_code != 200:
        assert time.monotonic() < until_s, "never ready"
        time.sleep(0.05)


@pytest.mark.parametrize("command", CURLS, ids=lambda command: command[2])
def test_first_score_of_the_demo_has_what_the_readme_says(command):
    path = command[2].removeprefix("http://127.0.0.1:8000")
    with TestClient(sidecar_app(Settings())) as client:
        wait_until_ready(client)
        reply = client.post(path, content=command[command.index("-d") + 1]).json()
    levels = [entry["score"] for entry in reply["scores"]]
    assert levels == sorted(levels, reverse=True)
    assert set(levels) <= set(range(11))
    assert {"filtered", "source", "ages_s"} <= set(reply)


@pytest.fixture
def without_the_long_work(monkeypatch) -> list[object]:
    done: list[object] = []
    for work in ("training.headroom.run", "benchmarks.report.show", "training.train.run", "training.evaluate.run"):
        monkeypatch.setattr(work, lambda *given, **options: done.append((given, options)))
    return done


@pytest.mark.slow
@pytest.mark.timeout(400)  # the first to run waits until numba has compiled the simulator
@pytest.mark.parametrize("arguments", PLAYED, ids=" ".join)
def test_every_pilotfish_command_works(arguments, without_the_long_work, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pilotfish", *arguments])
    with pytest.raises(SystemExit) as end:
        pilotfish.main()
    assert end.value.code == 0
    assert without_the_long_work if arguments[0] in LONG else capsys.readouterr().out
    if "--plot" in arguments:
        assert (tmp_path / arguments[arguments.index("--plot") + 1]).stat().st_size > 0
