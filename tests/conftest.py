"""What all tests share: the random examples of hypothesis, the optional real traces, and who runs which file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no defect, so nothing is too slow; the same examples on every run, so a failure is everybody's.
settings.register_profile("pilotfish", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pilotfish")

# As many workers as cores run the tests: threads of torch beside them would wait for each other, ten times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Where a test says nothing else, the sidecar serves the simulated cluster: a kubeconfig of whoever runs the tests is
# none of their business.
os.environ["PILOTFISH_CLUSTER__SOURCE"] = "simulation"


def pytest_addoption(parser: pytest.Parser) -> None:
    folder = os.environ.get("PILOTFISH_TRACES")
    parser.addoption("--traces", default=folder, help="folder with the public traces (or PILOTFISH_TRACES)")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file goes to one worker, and tests/cluster as a whole does: one control plane is enough for this machine."""
    from xdist.scheduler import LoadFileScheduling

    class OneControlPlane(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            folder = "tests/cluster"
            return folder if nodeid.startswith(f"{folder}/") else super()._split_scope(nodeid)

    return OneControlPlane(config, log)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with a small untrained policy; tests that change it copy it first."""
    from tests.tiny_model import release

    return release(tmp_path_factory.mktemp("model") / "default")


@pytest.fixture(scope="session")
def traces(request: pytest.FixtureRequest) -> Path:
    """The folder with the public traces; tests that need it are skipped without."""
    folder = request.config.getoption("--traces")
    if not folder:
        pytest.skip("needs the public traces: --traces DIR or PILOTFISH_TRACES")
    return Path(folder)


@pytest.fixture
def say(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Tells what was measured to whoever runs the tests: at the end of the run, also when workers ran them."""
    return lambda line: record_property("said", line)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    said = [str(line) for report in reports for name, line in report.user_properties if name == "said"]
    for line in dict.fromkeys(said):
        terminalreporter.write_line(f"measured: {line}")
