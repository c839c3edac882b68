"""From a checkpoint to a model folder: the network as ONNX, with what its features looked like in training."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import typer
from rich.console import Console

from envs.rewards import DIGEST as WEIGHTS_DIGEST
from envs.workloads.synthetic import GENERATOR_VERSION
from models.manifest import Kind, TrainingFacts
from training.checkpoint import Checkpoint, load_checkpoint
from training.config import TrainConfig
from training.export import ModelFacts, export
from training.feature_ranges import FeatureRecorder, Recording, widest
from training.group_tapes import TapeMaker
from training.play import play
from training.ppo import TrainingWorld, make_stack
from training.recorded_worlds import tapes_again
from training.specialists import Told, with_specialists
from training.watching import NetworkScorer

RANGE_EPISODES = 32  # of each scenario
RANGE_SEED = 800_000


def release(
    checkpoint: Checkpoint,
    worlds: list[TrainingWorld],
    folder: Path,
    kind: Kind = "default",
    minutes: float | None = None,
    told: Told = lambda text: None,
) -> Path:
    """Look for the worlds' own heads, play every world once more to record the ranges, then export.

    ``minutes`` is how long the whole run took until now, if it went on after the checkpoint was made.
    """
    began_s = time.monotonic()
    scorer = with_specialists(checkpoint.network(), worlds, checkpoint.config.seed, told=told)
    searched = [world.of_its_head() for world in worlds]
    played = [*worlds, *(world for world in searched if world not in worlds)]
    recorders = [FeatureRecorder() for _ in played]
    for world, recorder in zip(played, recorders, strict=True):
        tape = make_stack(world, RANGE_SEED, range(RANGE_EPISODES))
        play(Recording(NetworkScorer(scorer), recorder), tape)
    facts = ModelFacts(
        kind=kind,
        created=datetime.now(UTC).date(),
        node_features=widest([recorder.node_ranges for recorder in recorders]),
        pod_features=widest([recorder.pod_ranges for recorder in recorders]),
        training=_facts(checkpoint, worlds, (minutes or checkpoint.minutes) + (time.monotonic() - began_s) / 60.0),
    )
    export(scorer, folder, facts)
    return folder


def worlds_of(config: TrainConfig, make: TapeMaker) -> list[TrainingWorld]:
    return [
        TrainingWorld(
            scenario,
            1,
            1.0,
            make,
            own_head_decisions=world.own_head,
            head_scenario=head_scenario,
            head_from=head_from,
        )
        for scenario, head_scenario, head_from, world in zip(
            config.scenarios(), config.head_scenarios(), config.heads_from(), config.worlds, strict=True
        )
    ]


def run(checkpoint: Path, out: Path) -> None:
    """``pilotfish export``: the model of a checkpoint."""
    loaded = load_checkpoint(checkpoint)
    worlds = worlds_of(loaded.config, tapes_again(loaded.origin))
    with Console(stderr=True).status("exporting") as status:
        folder = release(loaded, worlds, out, told=status.update)
    typer.echo(f"wrote {folder}")


def _facts(checkpoint: Checkpoint, worlds: list[TrainingWorld], minutes: float) -> TrainingFacts:
    return TrainingFacts(
        config_digest=checkpoint.config.digest(),
        scenarios={world.scenario.name: world.scenario.digest() for world in worlds},
        generator_version=GENERATOR_VERSION,
        weights_digest=WEIGHTS_DIGEST,
        seeds=(checkpoint.config.seed,),
        decisions=checkpoint.decisions + sum(world.own_head_decisions for world in worlds),
        minutes=round(minutes, 1),
    )
