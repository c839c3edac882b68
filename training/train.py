"""``pilotfish train``: learn a policy in simulated clusters, and leave a model that the sidecar can load."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import typer
from rich.console import Console
from rich.live import Live
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure

from agent.errors import InputError
from agent.linear import LinearScorer
from envs.workloads.scenario import Scenario
from models.linear import load_linear
from training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from training.config import TrainConfig, World, load_config
from training.group_tapes import TapeMaker
from training.ppo import EpisodicPPO, TrainingWorld, make_stack
from training.release import release
from training.watching import Metrics, Watch, watch
from training.worlds import open_traces, tape_maker

CHECKPOINT, BEST, MODEL = "checkpoint.pt", "best.pt", "model"
REFERENCE = "expected_utilisation"  # what it costs is the scale of a scenario
NO_PRIOR = "none"

Report = Callable[[Metrics], None]


def run(
    *,
    config: str,
    scenarios: list[str] | None,
    traces: Path | None,
    recording: Path | None,
    steps: int | None,
    minutes: float | None,
    seed: int | None,
    out: Path,
    resume: bool,
    as_json: bool,
) -> None:
    """Read the options, train, say where the model is."""
    chosen = _overridden(load_config(config), scenarios, steps, seed)
    if resume:
        chosen = _same_run(chosen, load_checkpoint(out / CHECKPOINT).config)
    makers = _makers(chosen, traces, recording)
    beside = Console(stderr=True)
    with Live(console=beside, refresh_per_second=2, transient=not beside.is_terminal) as live:

        def report(metrics: Metrics) -> None:
            if as_json:
                typer.echo(json.dumps({"decisions": metrics.decisions, "minutes": round(metrics.minutes, 2),
                                       "relative_cost": metrics.relative_cost, "by_scenario": metrics.by_scenario}))  # fmt: skip

        model = train(chosen, out, minutes=minutes, resume=resume, makers=makers, report=report, live=live)
    beside.print(f"model: {model}")
