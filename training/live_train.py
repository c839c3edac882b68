"""``pilotfish train --live``: fine-tune the released policy on a real cluster, and leave a candidate with its verdict.

``out`` gets ``live.pt`` (to go on from, written around every placement), ``placements.jsonl`` (a line for each pod),
``model/`` (the candidate) and ``verdict.json``. Nothing here touches the released model: that is `pilotfish promote`,
if the candidate has won.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure

from agent.errors import InputError
from envs.live_env import LiveClusterEnv
from envs.workloads.scenario import load_scenario
from models.manifest import Manifest, read_manifest
from models.onnx_scorer import OnnxScorer
from models.onnx_weights import network_of
from training.contestants import DEFAULT_FOLDER
from training.export import ModelFacts, check_equal, export
from training.live_config import LIVE, Examination, LiveConfig, load_live_config
from training.live_ppo import Keep, LivePPO
from training.live_state import Keeper, load_state
from training.live_verdict import Verdict, examined, write_verdict
from training.model_card import write_words
from training.promote import MODEL, lacking

logger = logging.getLogger(__name__)

STATE, PLACEMENTS = "live.pt", "placements.jsonl"
CHECKED_STATES = 50
KEPT = ("pod", "bound_node_name", "by", "measured", "added_usd_per_hour", "cost_usd", "elapsed_s", "terms")

Say = Callable[[dict[str, Any]], None]


def run_from_options(config: str | None, options: dict[str, dict[str, Any]], **rest: Any) -> None:
    """``options`` go on top of the configuration, where they are given."""
    given = {group: {name: value for name, value in some.items() if value} for group, some in options.items()}
    run(load_live_config(config or LIVE, **given), **rest)


def run(config: LiveConfig, *, pods: int, out: Path, recording: Path | None, resume: bool, as_json: bool) -> None:
    beside = Console(stderr=True)

    def say(line: dict[str, Any]) -> None:
        typer.echo(json.dumps(line)) if as_json else beside.print(", ".join(f"{k} {v}" for k, v in line.items()))

    verdict = train_live(config, pods, out, recording=recording, resume=resume, say=say)
    then = f"release it with: pilotfish promote {out}" if verdict.wins else "the released model stays"
    beside.print(f"the candidate is in {out / MODEL}; it {verdict.words()}; {then}")


def train_live(
    config: LiveConfig,
    pods: int,
    out: Path,
    *,
    released: Path = DEFAULT_FOLDER,
    recording: Path | None = None,
    resume: bool = False,
    say: Say = lambda line: None,
) -> Verdict:
    """Place so many pods, those before a resumed run included; then export and examine what was learned."""
    _look_at_exam(config.exam, read_manifest(released))
    out.mkdir(parents=True, exist_ok=True)
    before = load_state(out / STATE) if resume else None
    keeper = Keeper(out / STATE, read_manifest(released).sha256, before)
    model = _model(config, released, out, keeper.keep, fresh=before is None)
    keeper.restore(model)
    left = pods - model.num_timesteps  # stable-baselines3 adds those placed before
    with closing(model.live):
        try:
            if left > 0:
                model.learn(left, callback=_Progress(model, say), reset_num_timesteps=before is None)
        except KeyboardInterrupt:
            raise InputError(f"stopped after {model.num_timesteps} pods; go on with: {_again(pods, out)}") from None
        finally:
            keeper.keep(model)
    return _candidate(model, keeper, released, out, recording)


def _look_at_exam(exam: Examination, released: Manifest) -> None:
    """Before pods are placed, not after."""
    worlds = [load_scenario(name).name for name in exam.scenarios]
    too_little = lacking(dict.fromkeys(worlds, exam.episodes), released)
    if too_little:
        logger.warning("the candidate cannot be released: %s", too_little)


def _again(pods: int, out: Path) -> str:
    return f"pilotfish train --live --pods {pods} --out {out} --resume"


def _model(config: LiveConfig, released: Path, out: Path, keep: Keep, fresh: bool) -> LivePPO:
    scorer, network = OnnxScorer.load(released), network_of(released)
    check_equal(network, scorer, CHECKED_STATES)
    placements = out / PLACEMENTS
    if fresh:
        placements.write_text("", encoding="utf-8")

    def note(info: dict[str, Any]) -> None:
        with placements.open("a", encoding="utf-8") as file:
            file.write(json.dumps({name: info[name] for name in KEPT}) + "\n")

    env = LiveClusterEnv(
        config.scheduler_name,
        config.cluster,
        config.prometheus,
        config.max_nodes,
        settle_s=config.settle_s,
        metrics_within_s=config.metrics_within_s,
        arrival_within_s=config.arrival_within_s,
    )
    model = LivePPO(env, scorer, network, config, note, keep)
    model.set_logger(configure(None, []))
    return model


class _Progress(BaseCallback):
    """Says how it goes, between two updates."""

    def __init__(self, model: LivePPO, say: Say) -> None:
        super().__init__()
        self.run, self.say = model, say

    def _on_step(self) -> bool:
        guard = self.run.guard
        costs = {"learner": guard.learner, "released": guard.released}
        said = {name: f"{running.mean:.3f} $/h over {running.pods}" for name, running in costs.items()}
        self.say({"pods": self.run.num_timesteps, **said, "falls": guard.falls})
        return True


def _candidate(model: LivePPO, keeper: Keeper, released: Path, out: Path, recording: Path | None) -> Verdict:
    """Export, examine what was exported, and put the results into its manifest and card."""
    folder, manifest = out / MODEL, read_manifest(released)
    learned = manifest.training.model_copy(
        update={
            "config_digest": model.live_config.digest(),
            "decisions": manifest.training.decisions + model.num_timesteps,
            "minutes": round(manifest.training.minutes + keeper.minutes, 1),
        }
    )
    facts = ModelFacts(
        kind=manifest.kind,
        created=datetime.now(UTC).date(),
        node_features=manifest.node_features,
        pod_features=manifest.pod_features,
        training=learned,
    )
    exported = export(model.scorer, folder, facts)
    exam = model.live_config.exam
    verdict = examined(folder, released, exam, recording, model.num_timesteps, model.guard.falls)
    write_words(exported.model_copy(update={"evaluation": verdict.rows}), folder)
    write_verdict(verdict, out)
    return verdict
