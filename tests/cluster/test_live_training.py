"""``pilotfish train --live`` as people run it: a process with its own rights, real pods, Ctrl-C in the middle."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from models.manifest import read_manifest
from serving.manifests.roles import NAME, rbac_text
from serving.settings import Settings
from tests.cluster.api import eventually
from tests.cluster.live_loop import live_loop
from tests.cluster.objects import cordon
from tests.cluster.processes import heed_ctrl_c
from tests.cluster.tape_objects import node_name
from training.contestants import DEFAULT_FOLDER
from training.live_state import load_state

PODS, BEFORE_STOP = 20, 7
CLOSED = node_name(3)


@pytest.fixture
def loop(control_plane, namespace):
    with live_loop(control_plane, namespace) as running:
        yield running


@pytest.fixture
def configuration(loop, tmp_path):
    """Short waits, and an examination of a few seconds."""
    content = {
        **loop.settings,
        "max_nodes": 8,
        "settle_s": 1.0,
        "arrival_within_s": 20.0,
        "pods_per_update": 6,
        "safety": {"control_every": 3},
        "learning": {"first_rate": 0.01, "last_rate": 0.01, "entropy": 0.0, "renewal": 1.0},
        "exam": {"scenarios": ["deployments"], "episodes": 2},
    }
    config = tmp_path / "live.yaml"
    config.write_text(yaml.safe_dump(content))
    return config


def command(config, out, *options: str) -> list[str]:
    pilotfish = [sys.executable, "-m", "pilotfish", "train", "--live", "--json"]
    return [*pilotfish, "--config", str(config), "--pods", str(PODS), "--out", str(out), *options]


@contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    run = subprocess.Popen(command, text=True, stderr=subprocess.PIPE, preexec_fn=heed_ctrl_c)
    try:
        yield run
    finally:
        run.kill()


def bound(loop) -> dict[str, str]:
    return {pod: node for pod, node in loop.where().items() if node}


@pytest.mark.timeout(400)
def test_a_run_that_is_stopped_and_resumed_leaves_a_candidate_with_its_verdict(loop, configuration, tmp_path, say):
    cordon(loop.admin, CLOSED)
    released, out = read_manifest(DEFAULT_FOLDER), tmp_path / "run"
    loop.create_pods(0, PODS + 4)
    with started(command(configuration, out)) as run:
        eventually(lambda: len(bound(loop)) >= BEFORE_STOP, f"{BEFORE_STOP} pods bound", within_s=150)
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=30)
    assert run.returncode == 2, errors
    assert "--resume" in errors.splitlines()[-1]
    before = len(bound(loop))
    assert load_state(out / "live.pt").pods in (before, before + 1)  # counted, and then bound

    done = subprocess.run(command(configuration, out, "--resume"), text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    placements = [json.loads(line) for line in (out / "placements.jsonl").read_text().splitlines()]
    where = bound(loop)
    assert len(where) in (PODS - 1, PODS)
    assert all(where[each["pod"].partition("/")[2]] == each["bound_node_name"] for each in placements)
    assert CLOSED not in where.values()
    assert {each["by"] for each in placements} == {"learner", "released"}
    assert all(each["measured"] for each in placements)

    verdict = json.loads((out / "verdict.json").read_text())
    candidate = read_manifest(out / "model")
    assert verdict["candidate_sha256"] == candidate.sha256 != released.sha256 == verdict["released_sha256"]
    assert verdict["pods"] == PODS
    assert [row.scenario for row in candidate.evaluation] == ["deployments"]
    assert read_manifest(DEFAULT_FOLDER) == released
    said = verdict["said"]
    say(f"live run: {len(placements)} placements noted, {len(where)} pods bound; the candidate {said}")


@pytest.mark.timeout(120)
def test_without_the_right_to_bind_a_run_ends_and_names_the_role_it_lacks(control_plane, loop, configuration, tmp_path):
    control_plane.admin.apply(yaml.safe_load_all(rbac_text(Settings())))  # the sidecar's: it only looks
    kubeconfig = control_plane.kubeconfig_of_service_account("kube-system", NAME)
    loop.create_pods(0, 12)
    run = [*command(configuration, tmp_path / "run"), "--kubeconfig", str(kubeconfig)]
    done = subprocess.run(run, text=True, capture_output=True, check=False)
    assert done.returncode == 2, done.stderr
    said = done.stderr.splitlines()[-1]
    assert "pods/binding" in said
    assert "pilotfish rbac --training" in said
    assert not bound(loop)
