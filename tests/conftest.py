"""What all tests share: the random examples of hypothesis, and the optional real traces."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no defect, so nothing is too slow; the same examples on every run, so a failure is everybody's.
settings.register_profile("pilotfish", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pilotfish")


def pytest_addoption(parser: pytest.Parser) -> None:
    folder = os.environ.get("PILOTFISH_TRACES")
    parser.addoption("--traces", default=folder, help="folder with the public traces (or PILOTFISH_TRACES)")


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
