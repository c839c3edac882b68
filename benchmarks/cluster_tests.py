"""How much of ``make test`` is the real control plane: its tests, and on a cold machine its programs, too.

Warm is what pytest takes for tests/cluster alone, as ``make test`` runs them. Cold adds what it takes to build the
programs with every cache empty, downloads included.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.bars import Bar, measured
from benchmarks.run import ROOT, minutes_of
from tests.cluster.building import PROGRAMS

ALL, ONE = "tests/cluster", "tests/cluster/test_api_server.py"
CACHES = ("XDG_CACHE_HOME", "GOCACHE", "GOMODCACHE")


def run(quick: bool, traces: Path | None = None) -> Iterable[Bar]:
    """The quick form runs one file of them, and builds nothing."""
    warm_min = tests_minutes(ONE if quick else ALL)
    yield measured("cluster_tests_warm_minutes", warm_min, tests=ONE if quick else ALL)
    if not quick:
        build_min = building_minutes()
        yield measured("cluster_tests_cold_minutes", warm_min + build_min, building=round(build_min, 1))


def tests_minutes(tests: str) -> float:
    return _minutes(["-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", tests], {})


def building_minutes() -> float:
    """Of what ``make cluster-tools`` does on a machine that has never done it."""
    with TemporaryDirectory() as folder:
        empty = {name: str(Path(folder) / name) for name in CACHES}
        # Go keeps what it downloads read-only, which nobody could remove afterwards
        minutes = _minutes(["-m", "tests.cluster.building"], empty | {"GOFLAGS": "-modcacherw"})
        built = {file.name for file in Path(empty["XDG_CACHE_HOME"]).rglob("*") if file.is_file()}
    return minutes if built >= {program.name for program in PROGRAMS} else float("inf")


def _minutes(command: Sequence[str], environment: Mapping[str, str]) -> float:
    return minutes_of([sys.executable, *command], ROOT, environment)
