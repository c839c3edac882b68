"""Tiny hand-made files in every trace format, laid out and packed as the real ones are."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parent / "fixtures"
PACKED = ("series", "instances", "pods", "source", "10s", "default")  # what the real files end in before .csv.gz


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A traces folder with a few rows of each kind."""
    folder = tmp_path_factory.mktemp("traces")
    for source in FIXTURES.rglob("*.csv"):
        target = folder / source.relative_to(FIXTURES)
        target.parent.mkdir(exist_ok=True)
        if source.stem.endswith(PACKED):
            target.with_name(target.name + ".gz").write_bytes(gzip.compress(source.read_bytes()))
        else:
            target.write_bytes(source.read_bytes())
    return folder
