"""``pilotfish tune``: search for a better training configuration with Ray Tune.

Every trial trains with other values of some fields and reports its relative cost as it goes; ASHA stops those that are
behind, so that the time goes into the promising ones. A worker that dies is replaced: its trial goes on from its last
checkpoint where the new worker finds it, else from the start.

``out`` gets ``best.yaml`` (for ``pilotfish train --config``), ``trials.json``, ``trials.png``, and a folder for
each trial.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
import yaml
from rich.console import Console
from rich.table import Table

from agent.errors import InputError
from training.config import TrainConfig, load_config
from training.search_space import Choices, Space, changed, load_space, present

if TYPE_CHECKING:  # it loads torch, which a search itself has no use for
    from training.watching import Metrics

logger = logging.getLogger(__name__)

METRIC, TIME = "relative_cost", "decisions"
RUNGS = 3  # of ASHA: a trial is judged after 1/9, 1/3 and all of its decisions
KEEP = 3  # one of so many goes on at each rung
RETRIES = 3  # of a trial whose worker died
STARTS = 3  # of a Ray on this machine
OBJECT_STORE_BYTES = 128 << 20  # nothing large travels between workers

# Ray reads these when it starts: no usage report, plain output, workers as nice as we are (else 15 nicer than anybody).
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_niceness": "0",
}

Report = Callable[["Metrics"], None]
Trainer = Callable[[TrainConfig, Path, Report], object]


@dataclass(frozen=True, slots=True)
class Search:
    """How wide and how long."""

    samples: int = 16
    minutes: float | None = None
    ray_address: str | None = None
    workers: int = 2  # trials side by side on this machine; a cluster has as many as it has CPUs
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """One configuration, and how its relative cost went."""

    values: dict[str, Any]
    decisions: list[int]
    relative_cost: list[float]
    failed: bool

    @property
    def best(self) -> float:
        return min((cost for cost in self.relative_cost if math.isfinite(cost)), default=math.inf)


def run(
    *,
    config: str,
    space: str,
    scenarios: Sequence[str],
    steps: int | None,
    search: Search,
    out: Path,
    as_json: bool,
) -> None:
    """Read the options, search, show and keep what was found."""
    from training.train import overridden

    whole = overridden(load_config(config), scenarios, None, None)
    base = overridden(whole, [], steps, None)  # of a trial: as many decisions as `steps`, no heads of the worlds' own
    varied = load_space(space, base)
    out.mkdir(parents=True, exist_ok=True)
    trials = search_with_ray(base, varied, search, out, train_one)
    found = keep(whole, trials, out)
    if as_json:
        typer.echo(json.dumps(found, allow_nan=False))
    else:
        show(trials, varied, Console())
        typer.echo(f"train with it: pilotfish train --config {out / 'best.yaml'}")


def train_one(config: TrainConfig, out: Path, report: Report) -> object:
    """One thread: as many trials run side by side as there are CPUs."""
    from training.train import CHECKPOINT, train

    single = config.model_copy(update={"threads": 1})
    return train(single, out, resume=(out / CHECKPOINT).is_file(), report=report)


# --- Ray


def search_with_ray(base: TrainConfig, space: Space, search: Search, out: Path, trainer: Trainer) -> list[Trial]:
    """All trials, best first."""
    ray, tune = _ray()
    mine = not ray.is_initialized()
    if mine:
        _connect(ray, search)
    try:
        tuner = _tuner(tune, base, space, search, out.resolve(), trainer)
        results = tuner.fit()
    finally:
        if mine:
            ray.shutdown()
    trials = sorted((_trial(result, space) for result in results), key=lambda trial: trial.best)
    if not trials or not math.isfinite(trials[0].best):
        raise InputError(f"no trial of {len(trials)} was evaluated even once: see the logs in {out / 'ray'}")
    return trials


def _ray() -> tuple[Any, Any]:
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    import ray
    from ray import tune

    return ray, tune


def _connect(ray: Any, search: Search) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if search.ray_address is None:
        size = {"num_cpus": search.workers, "object_store_memory": OBJECT_STORE_BYTES}
        _start(lambda: ray.init(address="local", include_dashboard=False, **size, **quiet))
        return
    try:
        ray.init(address=search.ray_address, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as why:
        line = str(why).partition("\n")[0]
        raise InputError(f"--ray-address {search.ray_address}: {line}; give HOST:PORT of a Ray head") from why


def _start(start: Callable[[], object]) -> None:
    """A new Ray gives itself 30 s to start, which a busy machine may miss: it is tried again."""
    for attempt in range(1, STARTS + 1):
        try:
            start()
            return
        except Exception as why:  # Ray raises just that; a start that failed has cleaned up after itself
            if "timed out during startup" not in str(why) or attempt == STARTS:
                raise
            logger.warning("Ray did not start within its time; trying again")


def _tuner(tune: Any, base: TrainConfig, space: Space, search: Search, out: Path, trainer: Trainer) -> Any:
    from ray.tune.schedulers import ASHAScheduler
    from ray.tune.search.basic_variant import BasicVariantGenerator

    longest = base.decisions
    return tune.Tuner(
        tune.with_resources(_trainable(base, out, trainer), {"cpu": 1}),
        param_space=_param_space(tune, space),
        tune_config=tune.TuneConfig(
            metric=METRIC,
            mode="min",
            num_samples=search.samples,
            reuse_actors=True,  # a new process would load torch and the simulator again
            time_budget_s=None if search.minutes is None else 60.0 * search.minutes,
            scheduler=ASHAScheduler(
                time_attr=TIME,
                max_t=longest,
                grace_period=max(longest // KEEP ** (RUNGS - 1), 1),
                reduction_factor=KEEP,
            ),
            search_alg=BasicVariantGenerator(points_to_evaluate=[present(base, space)], random_state=search.seed),
        ),
        run_config=tune.RunConfig(
            name="ray",
            storage_path=str(out),
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=RETRIES),
        ),
    )


def _param_space(tune: Any, space: Space) -> dict[str, Any]:
    drawn = {}
    for field, values in space.items():
        if isinstance(values, Choices):
            drawn[field] = tune.choice(list(values.choices))
        else:
            drawn[field] = (tune.loguniform if values.log else tune.uniform)(values.low, values.high)
    return drawn


def _trainable(base: TrainConfig, out: Path, trainer: Trainer) -> Callable[[dict[str, Any]], None]:
    """What a worker runs; Ray sends it there, so it holds nothing that belongs to this process."""

    def trial(values: dict[str, Any]) -> None:
        from ray import tune

        folder = out / "trials" / tune.get_context().get_trial_id()
        trainer(changed(base, values), folder, lambda metrics: tune.report(_reported(metrics)))

    return trial


def _reported(metrics: Metrics) -> dict[str, float]:
    return {TIME: metrics.decisions, METRIC: metrics.relative_cost}


def _trial(result: Any, space: Space) -> Trial:
    history = result.metrics_dataframe
    reported = [] if history is None or METRIC not in history else zip(history[TIME], history[METRIC], strict=True)
    seen = last_run([(int(decisions), float(cost)) for decisions, cost in reported])
    return Trial(
        values={field: result.config[field] for field in space},
        decisions=[decisions for decisions, _ in seen],
        relative_cost=[cost for _, cost in seen],
        failed=result.error is not None,
    )


def last_run(reports: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Each report once: a trial whose worker died repeats its last one, or all of them if it began again."""
    seen: list[tuple[int, float]] = []
    for decisions, cost in reports:
        while seen and seen[-1][0] >= decisions:
            seen.pop()
        seen.append((decisions, cost))
    return seen


# --- what was found


def keep(base: TrainConfig, trials: Sequence[Trial], out: Path) -> dict[str, Any]:
    """Write ``base`` with the best values, the trials and their picture; what ``--json`` shows."""
    best = changed(base, trials[0].values)
    text = yaml.safe_dump(best.model_dump(mode="json"), sort_keys=False)
    _write(out / "best.yaml", f"# Found by `pilotfish tune`: relative cost {trials[0].best:.4f}.\n{text}")
    found = {
        "best": {"relative_cost": trials[0].best, "values": trials[0].values, "config": str(out / "best.yaml")},
        "first": _first(base, trials),
        "trials": [_as_json(trial) for trial in trials],
    }
    _write(out / "trials.json", json.dumps(found, allow_nan=False, indent=1))
    draw(trials, out / "trials.png")
    return found


def _first(base: TrainConfig, trials: Sequence[Trial]) -> float | None:
    """Relative cost of the configuration that the search began with."""
    same = (trial.best for trial in trials if changed(base, trial.values) == base)
    return next((cost for cost in same if math.isfinite(cost)), None)


def _as_json(trial: Trial) -> dict[str, Any]:
    return {
        "relative_cost": trial.best if math.isfinite(trial.best) else None,
        "decisions": trial.decisions[-1] if trial.decisions else 0,
        "failed": trial.failed,
        "values": trial.values,
    }


def _write(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def show(trials: Sequence[Trial], space: Mapping[str, Any], console: Console) -> None:
    table = Table(title="relative cost: mean over scenarios of cost over the best baseline's; lower is better")
    table.add_column("relative cost", justify="right")
    table.add_column("decisions", justify="right")
    for field in space:
        table.add_column(field.replace(".", "\n"), justify="right")
    for trial in trials:
        row = [f"{trial.best:.4f}", f"{trial.decisions[-1]:,}" if trial.decisions else "failed"]
        table.add_row(*row, *(_short(trial.values[field]) for field in space))
    console.print(table)


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def draw(trials: Sequence[Trial], path: Path) -> None:
    """Relative cost over decisions; the best trial in colour."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    for trial in reversed(trials):
        best = trial is trials[0]
        style: dict[str, Any] = (
            {"color": "#1b7837", "linewidth": 2.5} if best else {"color": "#999999", "linewidth": 1.0}
        )
        label = f"best: {trial.best:.3f}" if best else None
        panel.plot(trial.decisions, trial.relative_cost, marker="o", markersize=3, label=label, **style)
    panel.axhline(1.0, color="black", linestyle=":", linewidth=1.0)
    panel.annotate(
        "best baseline", (0.995, 1.0), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=9
    )
    panel.set_xlabel("decisions")
    panel.set_ylabel("relative cost, lower is better")
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False)
    part = path.with_name(path.stem + ".part.png")
    figure.savefig(part, dpi=110)
    part.replace(path)
