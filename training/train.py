"""``pilotfish train``: learn a policy in simulated clusters, and leave a model that the sidecar can load.

``out`` gets ``checkpoint.pt`` (to go on from), ``best.pt`` (the best evaluation so far), ``model/`` (the exported best)
and a TensorBoard log. Ctrl-C leaves the first two as they were after the last update.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console
from rich.live import Live
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure

from agent.cluster import FloatArray
from agent.errors import InputError
from envs.workloads.synthetic import make_tape
from models.linear import MIX, load_linear
from training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from training.config import NONE, TrainConfig, load_config
from training.group_tapes import TapeMaker
from training.ppo import EpisodicPPO, TrainingWorld, make_stack
from training.recorded_worlds import recorded_config, recorded_scenario, tapes_again
from training.release import release, worlds_of
from training.watching import Metrics, Watch, watch
from training.worlds import Origin, check_same, open_traces, origin_of, tape_maker

CHECKPOINT, BEST, MODEL = "checkpoint.pt", "best.pt", "model"

Report = Callable[[Metrics], None]


def run(
    *,
    config: str,
    scenarios: Sequence[str],
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
    if traces is not None and recording is not None:
        raise InputError("--traces and --recording make different worlds: give one of them")
    chosen = overridden(load_config(config), scenarios, steps, seed, short=minutes is not None)
    if resume:
        before = load_checkpoint(out / CHECKPOINT)
        chosen, make = _as_begun(before.config, steps), _same_tapes(traces, recording, before.origin)
    elif recording is not None:
        chosen, make = recorded_config(recording, out, chosen)
    else:
        make = tape_maker(open_traces(traces))
    beside = Console(stderr=True)
    with Live(console=beside, refresh_per_second=1, transient=True) as live:
        report = _spoken if as_json else _unspoken
        model = train(chosen, out, minutes=minutes, resume=resume, make=make, report=report, live=live)
    beside.print(f"the model is in {model}; look at it with: pilotfish evaluate {model}")


def train(
    config: TrainConfig,
    out: Path,
    *,
    minutes: float | None = None,
    resume: bool = False,
    make: TapeMaker = make_tape,
    report: Report = lambda metrics: None,
    live: Live | None = None,
) -> Path:
    """Train until the decisions, the minutes or the patience are used up; the folder of the exported model."""
    out.mkdir(parents=True, exist_ok=True)
    before = load_checkpoint(out / CHECKPOINT) if resume else None
    if before is not None:
        check_same(before.origin, origin_of(make))
    linear = None if config.network.prior == NONE else load_linear(MIX)
    scenarios = config.scenarios()
    numbers = range(config.watching.episodes)
    tapes = {
        scenario.name: make_stack(TrainingWorld(scenario, 1, 1.0, make), config.watching.seed, numbers)
        for scenario in scenarios
    }

    def told(text: str) -> None:
        if live is not None:
            live.update(text)

    watching = watch(config, tapes, linear, told)
    worlds = [
        replace(
            made,
            groups=world.groups,
            usd_per_hour=watching.reference[made.scenario.name],
            own_account=world.account == "pod",
        )
        for made, world in zip(worlds_of(config, make), config.worlds, strict=True)
    ]
    model = EpisodicPPO(worlds, config, first_rule(config.network.prior))
    if before is not None:
        _restore(model, watching, before)
    session = _Session(watching, out, minutes, before, report, live)
    model.set_logger(configure(str(out / "tensorboard"), ["tensorboard"]))
    try:
        left = max(config.decisions - model.num_timesteps, 0)  # stable-baselines3 adds those made before
        model.learn(left, callback=session, reset_num_timesteps=before is None)
        session.look()
        return release(load_checkpoint(out / BEST), worlds, out / MODEL, minutes=session.minutes, told=told)
    except KeyboardInterrupt:
        raise InputError(f"stopped; go on with: pilotfish train --out {out} --resume") from None


def first_rule(prior: str) -> FloatArray | None:
    """What learning starts from, (1, features)."""
    return None if prior == NONE else load_linear(prior).weights[None]


class _Session(BaseCallback):
    """Between two updates: look, keep checkpoints, show, and stop when it is time."""

    def __init__(
        self,
        watching: Watch,
        out: Path,
        minutes: float | None,
        before: Checkpoint | None,
        report: Report,
        live: Live | None,
    ) -> None:
        super().__init__()
        self.watching, self.out, self.limit, self.report, self.live = watching, out, minutes, report, live
        self._began_s = time.monotonic()
        self._before = before.minutes if before else 0.0
        self._looked = before.updates if before else None  # how much the network had learned at the last look

    @property
    def minutes(self) -> float:
        return self._before + (time.monotonic() - self._began_s) / 60.0

    def _on_rollout_start(self) -> None:
        model = self._ppo
        if model.updates % model.config.watching.every == 0:
            self.look()
        elif model.updates:
            self._keep(CHECKPOINT)

    def _on_step(self) -> bool:
        patience = self._ppo.config.watching.patience
        self._show()
        return not self._late() and (patience is None or self.watching.since_best < patience)

    def look(self) -> None:
        """Compare with the baselines, and keep what is best so far."""
        model, since_best = self._ppo, self.watching.since_best
        metrics = self.watching.look(model.scorer, model.num_timesteps, self.minutes)
        if model.updates == self._looked and not metrics.is_best:
            self.watching.since_best = since_best  # the same network again, as after --resume: patience counts it once
        self._looked = model.updates
        for name, value in metrics.by_scenario.items():
            self.logger.record(f"relative_cost/{name}", value)
        self.logger.record("relative_cost/mean", metrics.relative_cost)
        self.logger.dump(model.num_timesteps)
        self._keep(CHECKPOINT)
        if metrics.is_best:
            self._keep(BEST)
        self.report(metrics)
        self._show()

    @property
    def _ppo(self) -> EpisodicPPO:
        assert isinstance(self.model, EpisodicPPO)
        return self.model

    def _late(self) -> bool:
        return self.limit is not None and time.monotonic() - self._began_s > 60.0 * self.limit

    def _keep(self, name: str) -> None:
        model = self._ppo
        kept = Checkpoint(
            config=model.config,
            scorer=model.scorer.state_dict(),
            policy=model.policy.state_dict(),
            optimizer=model.policy.optimizer.state_dict(),
            updates=model.updates,
            decisions=model.num_timesteps,
            minutes=self.minutes,
            best=self.watching.best,
            since_best=self.watching.since_best,
            origin=origin_of(model.worlds[0].make),
        )
        save_checkpoint(kept, self.out / name)

    def _show(self) -> None:
        if self.live is not None:
            model = self._ppo
            speed = model.num_timesteps / max(60.0 * self.minutes, 1e-9)
            state = f"{model.num_timesteps:,} decisions, {self.minutes:.1f} min, {speed:,.0f}/s, update {model.updates}"
            self.live.update(self.watching.table(state))


def overridden(
    config: TrainConfig, scenarios: Sequence[str], steps: int | None, seed: int | None, short: bool = False
) -> TrainConfig:
    """The configuration with what the command line says; a run cut short has no time for heads of the worlds' own."""
    content = (config.without_heads() if short or steps is not None else config).model_dump()
    if scenarios:
        known = {world["scenario"]: world for world in content["worlds"]}
        content["worlds"] = [known.get(name, {"scenario": name}) for name in scenarios]
        for world in content["worlds"]:
            if world.get("head_from") not in scenarios:  # nor is its head there to start from
                world["head_from"] = None
    content["decisions"] = config.decisions if steps is None else steps
    content["seed"] = config.seed if seed is None else seed
    return TrainConfig.model_validate(content)


def _as_begun(config: TrainConfig, steps: int | None) -> TrainConfig:
    """A run goes on as it began; only its length may change."""
    return config if steps is None else config.model_copy(update={"decisions": steps})


def _same_tapes(traces: Path | None, recording: Path | None, before: Origin | None) -> TapeMaker:
    """Those of the run, or those that the options name: ``train`` refuses others."""
    if recording is not None:
        return recorded_scenario(recording)[1]
    return tapes_again(before) if traces is None else tape_maker(open_traces(traces))


def _restore(model: EpisodicPPO, watching: Watch, before: Checkpoint) -> None:
    model.scorer.load_state_dict(before.scorer)
    model.policy.load_state_dict(before.policy)
    model.policy.optimizer.load_state_dict(before.optimizer)
    model.updates, model.num_timesteps = before.updates, before.decisions
    watching.best, watching.since_best = before.best, before.since_best


def _spoken(metrics: Metrics) -> None:
    typer.echo(
        json.dumps(
            {
                "decisions": metrics.decisions,
                "minutes": round(metrics.minutes, 2),
                "relative_cost": metrics.relative_cost,
                "by_scenario": metrics.by_scenario,
            }
        )
    )


def _unspoken(metrics: Metrics) -> None:
    """The table says it."""
