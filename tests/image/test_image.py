"""The image, built and started for real (docs/deploy.md): what is in it, what it may do, how fast it comes and goes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.building import BASE, IMAGE, Buildah, build_image
from tests.serving.leaving import seconds_to_leave
from tests.serving.test_run import ask, free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]  # cold, it makes the base and installs every library

MOST_MB_OVER_BASE = 350
GONE_WITHIN_S = 2.0
READY_WITHIN_S = 20.0  # on a busy machine; the bar of 2 s is measured by `pilotfish benchmark serving`
SITE_PACKAGES = "opt/pilotfish/lib/python3.11/site-packages"
NEVER_INSIDE = (
    "torch",
    "numba",
    "llvmlite",
    "pyarrow",
    "pandas",
    "matplotlib",
    "polars",
    "ray",
    "gymnasium",
    "scipy",
    "pip",
)


@pytest.fixture(scope="module")
def buildah() -> Buildah:
    return build_image()


@pytest.fixture(scope="module")
def files(buildah) -> Iterator[Path]:
    with buildah.files(IMAGE) as files:
        yield files


def megabytes(files: Path) -> float:
    sizes = {(found.st_dev, found.st_ino): found.st_size for found in map(os.lstat, files.rglob("*"))}
    return sum(sizes.values()) / 1e6


def test_it_adds_at_most_350_mb_to_its_base(buildah, files):
    with buildah.files(BASE) as base:
        over_base = megabytes(files) - megabytes(base)
    assert over_base < MOST_MB_OVER_BASE


def test_no_training_library_and_no_installer_is_inside(files):
    assert [name for name in NEVER_INSIDE if (files / SITE_PACKAGES / name).exists()] == []


def test_the_released_models_are_inside(files):
    for name in ("default", "gpu"):
        assert (files / SITE_PACKAGES / "models/released" / name / "policy.onnx").is_file()


def test_nothing_of_the_checkout_but_the_packages_is_inside(files):
    known = {"agent", "envs", "models", "serving", "training", "pilotfish.py"}
    assert known <= {path.name for path in (files / SITE_PACKAGES).iterdir()}
    assert not (files / "src").exists()
    assert [path for path in files.glob("opt/**/*") if path.name in ("tests", ".git", "docs", ".venv")] == []


def test_no_kubeconfig_and_no_way_to_a_package_index_is_inside(buildah, files):
    assert [
        path for name in (".kube", "*kubeconfig*", "pip.conf", "admin.conf") for path in files.glob(f"**/{name}")
    ] == []
    described = json.dumps(buildah.inspect(IMAGE))
    private = [os.environ[name] for name in ("PIP_INDEX_URL", "PIP_FIND_LINKS", "PIP_CERT") if os.environ.get(name)]
    assert [value for value in private if value in described] == []


def test_it_is_nobody_and_says_how_it_is(buildah):
    config = buildah.inspect(IMAGE)["Docker"]["config"]
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["pilotfish"]
    assert config["Cmd"] == ["serve"]
    assert config["Healthcheck"]["Test"] == ["CMD", "python", "-m", "serving.healthcheck"]


def test_what_was_left_out_of_the_kubernetes_client_is_not_missed(buildah):
    with buildah.container(IMAGE) as container:
        buildah.run("run", container, "--", "python", "-c", "import kubernetes.client.configuration, kubernetes.config")


class Running:
    """The image as a process: ENTRYPOINT and what a test gives, as the user of the image."""

    def __init__(self, buildah: Buildah, container: str, *arguments: str) -> None:
        self.buildah, self.container, self.port = buildah, container, free_port()
        self.environment = [f"--env=PILOTFISH_SERVER__PORT={self.port}"]
        self.began_s = time.monotonic()
        command = buildah.command("run", *self.environment, container, "--", "pilotfish", *arguments)
        self.process = subprocess.Popen(command, env=buildah.environment, stderr=subprocess.PIPE, text=True)

    def wait_until_ready(self) -> float:
        while time.monotonic() < self.began_s + READY_WITHIN_S:
            assert self.process.poll() is None, self.process.stderr.read()
            try:
                ask(self.port, "/readyz")
                return time.monotonic() - self.began_s
            except OSError:
                time.sleep(0.02)
        raise AssertionError("never ready")

    def inside(self, *command: str) -> int:
        given = self.buildah.command("run", *self.environment, self.container, "--", *command)
        return subprocess.run(given, env=self.buildah.environment, capture_output=True, check=False).returncode

    def pid(self) -> int:
        """The process itself, below those of buildah."""
        pid = self.process.pid
        while children := _children(pid):
            pid = children[0]
        return pid


def _children(pid: int) -> list[int]:
    """Of all its threads: any of them can have started one."""
    lists = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(child) for each in lists for child in each.split()]


@pytest.fixture
def running(buildah) -> Iterator[Running]:
    with buildah.container(IMAGE) as container:
        sidecar = Running(buildah, container, "demo")
        yield sidecar
        if sidecar.process.poll() is None:
            os.kill(sidecar.pid(), signal.SIGKILL)
        sidecar.process.communicate(timeout=20)


def test_it_starts_scores_by_its_own_model_and_leaves_on_a_term(running):
    took_s = running.wait_until_ready()
    assert took_s < READY_WITHIN_S
    reply = ask(running.port, "/v1/score", {"requirements": {"cpu": "250m", "memory": "64Mi"}})
    assert reply["source"] == "policy"
    assert running.inside("python", "-m", "serving.healthcheck") == 0
    status = Path(f"/proc/{running.pid()}/status").read_text()
    assert "Uid:\t10001\t10001" in status
    pid = running.pid()
    os.kill(pid, signal.SIGTERM)
    assert seconds_to_leave(pid) < GONE_WITHIN_S
    running.process.wait(timeout=10)
    assert running.inside("python", "-m", "serving.healthcheck") == 1


WRITABLE = """
import os
for folder, _, _ in os.walk("/"):
    if not folder.startswith(("/proc", "/dev", "/sys")) and os.access(folder, os.W_OK):
        print(folder)
"""


def test_its_user_can_write_only_where_everybody_can(buildah):
    with buildah.container(IMAGE) as container:
        writable = buildah.run("run", container, "--", "python", "-c", WRITABLE).split()
    assert "/tmp" in writable
    assert set(writable) <= {"/tmp", "/var/tmp", "/run/lock"}
