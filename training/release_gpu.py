"""``pilotfish train-gpu``: tune the GPU model and write its folder.

The ranges in its manifest come from both worlds that it was tuned in, so that neither is odd to the sidecar's guard.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import typer
from rich.console import Console

from agent.errors import InputError
from agent.features import encode
from envs.openb_packing import PackingProblem, published_run
from envs.openb_policy import as_seen, pack_weighted, place, static_pods, views
from envs.packing import UNPLACED, empty_world
from envs.rewards import DIGEST as WEIGHTS_DIGEST
from envs.workloads.scenario import load_scenario
from envs.workloads.synthetic import GENERATOR_VERSION, make_tapes
from models.manifest import Manifest, TrainingFacts, read_model
from models.onnx_weights import gpu_weights
from training.export import ModelFacts, export
from training.feature_ranges import FeatureRecorder, Recording
from training.gpu_beside import search_beside
from training.gpu_config import GpuConfig, read_config
from training.gpu_problems import OpenbLists
from training.play import play
from training.train_gpu import SCENARIO, Generation, Trained, WeightedScorer, gates_of, network, train

RANGE_EPISODES = 32
RANGE_SEED = 800_000
LOOK_EVERY = 400  # pods of a packing run


def run(traces: Path, config: Path, out: Path, as_json: bool, start: Path | None = None) -> None:
    """With a model to start from, its weights stand in for all that the phases would find."""
    settings = read_config(config)
    lists = OpenbLists.read(openb_folder(traces), settings.lists)
    console = Console(stderr=True)

    def told(generation: Generation) -> None:
        if as_json:
            typer.echo(json.dumps({name: value for name, value in asdict(generation).items() if not _is_nan(value)}))
        else:
            console.print(
                f"{generation.phase} {generation.number}: unallocated {generation.unallocated_percent:.2f} %,"
                f" cost {generation.cost_ratio:.3f} of most pods first"
            )

    began_s, minutes = time.monotonic(), 0.0
    if start is None:
        trained = train(settings, lists, told)
    else:
        before, model = read_model(start)
        trained, minutes = Trained(gpu_weights(model), before.training.decisions), before.training.minutes
    if settings.beside:
        trained.weights = search_beside(trained.weights, settings.from_linear, settings.beside, told)
        trained.decisions += settings.beside
    manifest = release(trained, settings, lists, minutes + (time.monotonic() - began_s) / 60.0, out)
    typer.echo(f"wrote {manifest.label} to {out}")


def release(trained: Trained, config: GpuConfig, lists: OpenbLists, minutes: float, folder: Path) -> Manifest:
    recorder = FeatureRecorder(config.seed)
    scenario = load_scenario(SCENARIO)
    play(Recording(WeightedScorer(trained.weights), recorder), make_tapes(scenario, RANGE_SEED, range(RANGE_EPISODES)))
    for name in lists.pods:
        record_run(lists.problem(name), trained, recorder)
    facts = TrainingFacts(
        config_digest=config.digest(),
        scenarios={SCENARIO: scenario.digest()},
        generator_version=GENERATOR_VERSION,
        weights_digest=WEIGHTS_DIGEST,
        seeds=(config.seed,),
        decisions=trained.decisions,
        minutes=round(minutes, 1),
    )
    today = datetime.now(UTC).date()
    return export(
        network(trained.weights), folder, ModelFacts("gpu", today, recorder.node_ranges, recorder.pod_ranges, facts)
    )


def record_run(problem: PackingProblem, trained: Trained, recorder: FeatureRecorder) -> None:
    """Show the recorder a packing run, a look now and then."""
    nodes, arrivals, _ = published_run(problem, RANGE_SEED)
    weights = gates_of(static_pods(problem.kinds)) @ trained.weights
    chosen = pack_weighted(nodes, problem.kinds, arrivals, weights)
    world = empty_world(nodes, problem.kinds)
    live, _ = views(nodes, world)
    for arrival, (kind, node) in enumerate(zip(arrivals.tolist(), chosen.tolist(), strict=True)):
        if arrival % LOOK_EVERY == 0:
            state, demand, candidates = as_seen(nodes, world, live, kind)
            recorder.see(encode(state, demand, candidates), candidates)
        if node != UNPLACED:
            place(world, live, kind, node)


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def openb_folder(traces: Path) -> Path:
    for folder in (traces / "openb", traces):
        if list(folder.glob("openb_pod_list_*")):
            return folder
    raise InputError(f"{traces}: no openb lists here; --traces takes the folder that holds openb/")
