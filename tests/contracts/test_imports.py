"""The layers hold, and the live path stays light: by its imports, and in an environment with the serve extra alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRAINING_LIBRARIES = {"gymnasium", "numba", "llvmlite", "torch", "stable_baselines3", "sb3_contrib", "matplotlib"}

SCORE_ONE_POD = """
import json, sys, threading, time, urllib.error, urllib.request
import uvicorn
from serving.run import sidecar_app
from serving.configuration import load_settings

server = uvicorn.Server(uvicorn.Config(sidecar_app(load_settings()), port=0, log_level="error"))
threading.Thread(target=server.run, daemon=True).start()
while not server.started:
    time.sleep(0.05)
port = server.servers[0].sockets[0].getsockname()[1]
body = json.dumps({"requirements": {"cpu": "100m", "memory": "64Mi"}}).encode()
request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/score", body, {"Content-Type": "application/json"})
while True:
    try:
        answer = json.load(urllib.request.urlopen(request, timeout=20))
        break
    except urllib.error.HTTPError as not_ready:  # 503 until the simulated cluster has its first state
        if not_ready.code != 503:
            raise
        time.sleep(0.1)
server.should_exit = True
print(json.dumps({"answer": answer, "loaded": sorted({name.partition(".")[0] for name in sys.modules})}))
"""


def contracts(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.prefix) / "bin" / "lint-imports", "--no-logo", "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_import_contracts_hold():
    verdict = contracts(ROOT)
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("agent/stray.py", "import rich", "agent.stray is not allowed to import rich"),
        ("agent/stray.py", "import time", "agent.stray is not allowed to import time"),
        ("envs/stray.py", "import training", "envs is not allowed to import training"),
        ("envs/dynamics/stray.py", "import pilotfish", "envs is not allowed to import pilotfish"),
        ("serving/stray.py", "import training", "serving is not allowed to import training"),
        ("serving/stray.py", "def f():\n    import torch", "serving is not allowed to import torch"),
        ("serving/stray.py", "import models.linear", "serving.stray is not allowed to import models.linear"),
        ("models/manifest.py", "import torch", "serving is not allowed to import torch"),
        ("serving/stray.py", "import envs.packing", "serving.stray is not allowed to import envs.packing"),
    ],
)
def test_stray_import_breaks_a_contract(tmp_path, file, line, complaint):
    for package in ("agent", "envs", "models", "training", "serving", "tests/contracts"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / file).write_text(f"{line}\n")
    verdict = contracts(tmp_path)
    assert verdict.returncode == 1, verdict.stdout + verdict.stderr
    assert complaint in " ".join(verdict.stdout.split())


@pytest.fixture(scope="module")
def serve_environment(tmp_path_factory) -> Path:
    """Pilotfish as a user installs it: the wheel with the serve extra, and nothing of this checkout."""
    environment = tmp_path_factory.mktemp("serve") / "venv"
    uv = shutil.which("uv") or str(Path(sys.prefix) / "bin" / "uv")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, environment], check=True)
    pins = ["--constraint", ROOT / "constraints.txt", "--build-constraint", ROOT / "constraints.txt"]
    install = [uv, "pip", "install", "--quiet", "--python", environment / "bin" / "python", *pins, f"{ROOT}[serve]"]
    # What `make test` installed is in uv's cache; the network is asked only where that cache was cleared.
    if subprocess.run([*install, "--offline"], capture_output=True, check=False).returncode != 0:
        subprocess.run(install, check=True)
    return environment


def files_below(folder: Path) -> set[Path]:
    return {file.relative_to(folder) for file in folder.rglob("*") if file.is_file()}


@pytest.mark.slow
def test_serve_extra_alone_scores_a_pod_by_the_policy_and_loads_no_training_library(
    serve_environment, model_folder, tmp_path
):
    command = [serve_environment / "bin" / "python", "-c", SCORE_ONE_POD]
    environment = os.environ | {"PILOTFISH_MODEL__FOLDER": str(model_folder)}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout.splitlines()[-1])
    assert result["answer"]["scores"]
    assert result["answer"]["source"] == "policy"
    assert TRAINING_LIBRARIES.isdisjoint(result["loaded"])


@pytest.mark.slow
def test_wheel_holds_every_scenario_model_and_console_file_and_no_benchmark(serve_environment):
    (installed,) = serve_environment.glob("lib/python*/site-packages")
    for folder in ("envs/scenarios", "models/released", "serving/console"):
        assert files_below(installed / folder) == files_below(ROOT / folder) != set()
    assert not (installed / "benchmarks").exists()
    for name in ("env", "scheduler"):
        command = [serve_environment / "bin" / "pilotfish", "benchmark", name]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (answer.returncode, answer.stderr.count("\n")) == (2, 1)
        assert "benchmarks live in the repository" in answer.stderr
