"""X.6: what decides has no clock, no randomness and no I/O of its own; whoever builds it passes them in."""

import ast
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks.extender.client import a_body
from benchmarks.extender.cluster import StandingCluster
from serving.decide import new_decider
from serving.extender import Extender
from serving.observability import Metrics
from serving.settings import Settings

ROOT = Path(__file__).parents[2]
IN_SERVING = ("decide", "decision", "decisions", "exploration", "extender", "foreseen", "rollout", "summary", "turns")
DECIDING = [
    *sorted((ROOT / "agent").rglob("*.py")),
    *sorted((ROOT / "envs" / "dynamics").rglob("*.py")),
    *(ROOT / "serving" / f"{name}.py" for name in IN_SERVING),
    ROOT / "models" / "onnx_scorer.py",
]
CLOCKS = {"time.time", "time.monotonic", "time.perf_counter", "time.sleep", "datetime.now", "date.today"}
IO = {"open", "print", "input", "os.getenv", "socket.socket", "socket.create_connection", "subprocess.run"}
RANDOM = {"random.random", "random.choice", "uuid.uuid4", "np.random.rand", "np.random.random"}


def calls_of_its_own(source: str) -> list[str]:
    """Calls that only the outside may make; a default such as ``clock: Clock = time.time`` is no call."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    named = [(ast.unparse(call.func), bool(call.args)) for call in calls]
    return [name for name, _ in named if name in CLOCKS | IO | RANDOM] + [
        name for name, seeded in named if name.endswith("default_rng") and not seeded
    ]


@pytest.mark.parametrize("path", DECIDING, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_decides_takes_time_and_chance_from_outside(path):
    assert calls_of_its_own(path.read_text()) == []


@pytest.mark.parametrize("line", ["time.time()", "np.random.default_rng()", "open('f')", "datetime.now(UTC)"])
def test_a_call_of_its_own_would_be_found(line):
    assert calls_of_its_own(f"def f():\n    return {line}\n")


def test_two_sidecars_with_the_same_clock_answer_alike():
    def answers() -> list[list[int]]:
        ticks = iter(np.arange(100.0, 200.0, 0.001).tolist())
        settings, metrics = Settings(), Metrics()
        decider = new_decider(settings, lambda: next(ticks), metrics.on_ranking, metrics.on_skip)
        extender = Extender(settings, StandingCluster(30, lambda: 100.0), decider, metrics)
        bodies = [a_body(30, number) for number in range(40)]
        return [extender.levels(body["Pod"], body["NodeNames"]) for body in bodies]

    first = answers()
    time.sleep(0.05)
    assert answers() == first
    assert len({tuple(each) for each in first}) > 1, "the placements before a pod count"
