"""The commands of training: they read options and call one verb each, which is imported only when it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent.errors import InputError

app = typer.Typer()
record_app = typer.Typer(name="record", no_args_is_help=True, help="Recordings of a cluster: what the sidecar writes.")
app.add_typer(record_app)

Scenario = Annotated[str, typer.Argument(help="A name from `pilotfish scenarios`, or a YAML file.")]
Traces = Annotated[Path | None, typer.Option(help="The folder with the public traces.")]


@app.command()
def simulate(
    scenario: Scenario,
    policy: Annotated[str, typer.Option(help="Which policy places the pods.")] = "expected_utilisation",
    episodes: Annotated[int, typer.Option(min=1, help="How many episodes.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="The first episode's seed; the others follow it.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="The result as one JSON object.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw one episode into this PNG file.")] = None,
    traces: Traces = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Count malformed trace rows, do not stop.")] = False,
) -> None:
    """Run a policy in a simulated cluster and show what it costs."""
    from training.simulate import run

    run(
        scenario,
        policy=policy,
        episodes=episodes,
        seed=seed,
        as_json=as_json,
        plot=plot,
        traces=traces,
        skip_bad=skip_bad,
    )


@app.command()
def headroom(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[SCENARIO]...", help="All of them if not given.")
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="How many episodes of each.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Training uses seeds below a million.")] = 1_000_000,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line for each scenario.")] = False,
    candidates: Annotated[int, typer.Option(min=2, help="Nodes that are tried for each pod.")] = 6,
    ahead_s: Annotated[float, typer.Option(min=1.0, help="Seconds that each try is played on.")] = 300.0,
    futures: Annotated[int, typer.Option(min=1, help="Resampled futures of each try.")] = 4,
    most_nodes: Annotated[int | None, typer.Option(min=1, help="Worlds with no more nodes than this.")] = None,
    save: Annotated[Path | None, typer.Option(help="Keep the rows in this JSON file, one for each scenario.")] = None,
) -> None:
    """Show how much better than the best baseline a scheduler could be."""
    from envs.workloads.scenario import scenario_names
    from training.headroom import run
    from training.rollouts import Search

    run(
        names or scenario_names(),
        episodes=episodes,
        seed=seed,
        search=Search(candidates=candidates, ahead_s=ahead_s, futures=futures),
        as_json=as_json,
        most_nodes=most_nodes,
        save=save,
    )


@app.command()
def evaluate(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODEL]...", help="A model's folder, or a heuristic; the released one if not given."),
    ] = None,
    scenario: Annotated[list[str] | None, typer.Option(help="Only this one; may be given often.")] = None,
    episodes: Annotated[int, typer.Option(min=1, help="How many episodes of each scenario.")] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Training uses seeds below a million.")] = 1_000_000,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line for each scenario.")] = False,
    report: Annotated[Path | None, typer.Option(help="Write tables, plots and ablations to this HTML file.")] = None,
    traces: Traces = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Count malformed trace rows, do not stop.")] = False,
    ray_address: Annotated[
        str | None, typer.Option(help="Play on this Ray cluster; `local` starts one on this machine.")
    ] = None,
) -> None:
    """Compare models with every baseline on the same arrivals."""
    from training.evaluate import Exam, run

    exam = Exam(episodes, seed, traces, skip_bad, ray_address)
    run(models or [], scenarios=scenario or [], exam=exam, as_json=as_json, report=report)


@app.command()
def cem(
    scenario: Annotated[
        list[str] | None, typer.Option(help="mix, or a scenario for a vector of its own; all of them if not given.")
    ] = None,
    decisions: Annotated[int, typer.Option(min=1, help="Decisions to spend on each vector.")] = 50_000_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the episodes and of the search.")] = 0,
    varied_loads: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Share of the episodes in which each load moves in its own way."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for weights.json.")] = Path("runs/linear"),
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line for each vector.")] = False,
) -> None:
    """Tune a linear scorer by the cross-entropy method."""
    from training.cem import run

    run(scenario or [], decisions=decisions, seed=seed, out=out, as_json=as_json, varied_loads=varied_loads)


@app.command()
def train(
    scenario: Annotated[list[str] | None, typer.Option(help="Instead of those of the configuration.")] = None,
    config: Annotated[
        str | None, typer.Option(help="A name from training/configs, or a YAML file; `default`, with --live `live`.")
    ] = None,
    traces: Traces = None,
    recording: Annotated[
        Path | None, typer.Option(help="Learn in worlds made of this recording; with --live, be examined there too.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Decisions to learn from.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0.0, help="Stop after so many minutes.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="One seed, one number of threads: the same weights.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for checkpoints, log and model.")] = Path("runs/train"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line for each evaluation.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Fine-tune the released policy on a real cluster.")] = False,
    pods: Annotated[int, typer.Option(min=1, help="With --live: place so many, then stop.")] = 500,
    kubeconfig: Annotated[str | None, typer.Option(help="With --live: how the cluster is reached.")] = None,
    prometheus: Annotated[str | None, typer.Option(help="With --live: where Prometheus answers.")] = None,
) -> None:
    """Learn a policy in simulated clusters, or on a real one."""
    if live:
        never = {"scenario": scenario, "traces": traces, "steps": steps, "minutes": minutes, "seed": seed}
        _refuse("--live", "it ends after --pods, the rest is in its --config", **never)
        from training.live_train import run_from_options

        options = {"cluster": {"kubeconfig": kubeconfig}, "prometheus": {"address": prometheus}}
        run_from_options(config, options, pods=pods, out=out, recording=recording, resume=resume, as_json=as_json)
        return
    if resume:
        _refuse("--resume", "it goes on as it began", config=config, scenario=scenario, seed=seed)
    from training.train import run

    run(
        config=config or "default",
        scenarios=scenario or [],
        traces=traces,
        recording=recording,
        steps=steps,
        minutes=minutes,
        seed=seed,
        out=out,
        resume=resume,
        as_json=as_json,
    )


def _refuse(mode: str, why: str, **options: object) -> None:
    given = [f"--{name}" for name, value in options.items() if value not in (None, [])]
    if given:
        raise InputError(f"no option of {mode}: {', '.join(given)}; {why}")


@app.command()
def tune(
    scenario: Annotated[list[str] | None, typer.Option(help="Instead of those of the configuration.")] = None,
    samples: Annotated[int, typer.Option(min=1, help="Configurations to try.")] = 16,
    minutes: Annotated[float | None, typer.Option(min=0.0, help="Stop the search after so many minutes.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Decisions of a trial that is not stopped early.")] = 2_000_000,
    config: Annotated[str, typer.Option(help="Where the search begins; as in `pilotfish train`.")] = "default",
    space: Annotated[str, typer.Option(help="What is varied: a name from training/spaces, or a file.")] = "default",
    workers: Annotated[int, typer.Option(min=1, help="Trials side by side on this machine.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = 0,
    ray_address: Annotated[str | None, typer.Option(help="HOST:PORT of a Ray head; else Ray starts here.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the trials and the best configuration.")] = Path("runs/tune"),
    as_json: Annotated[bool, typer.Option("--json", help="The trials as one JSON object.")] = False,
) -> None:
    """Search for a better training configuration."""
    from training.tune import Search, run

    search = Search(samples=samples, minutes=minutes, ray_address=ray_address, workers=workers, seed=seed)
    run(config=config, space=space, scenarios=scenario or [], steps=steps, search=search, out=out, as_json=as_json)


@app.command()
def thesis(
    scenario: Annotated[list[str] | None, typer.Option(help="May be given often; else the released ones.")] = None,
    settings: Annotated[str, typer.Option(help="launch: 2,000 steps; published: 500,000.")] = "published",
    out: Annotated[Path | None, typer.Option(help="Folder for the weights; else they are released.")] = None,
) -> None:
    """Train the two agents of the NetworkTraffic thesis, as baselines."""
    from training.dqn import run
    from training.thesis_agents import SCENARIOS

    run(scenario or SCENARIOS, settings=settings, out=out)


@app.command()
def export(
    checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="What `pilotfish train` wrote.")],
    out: Annotated[Path, typer.Option(help="The model folder; one that is there is replaced.")],
) -> None:
    """Turn a checkpoint into a model folder that the sidecar loads."""
    from training.release import run

    run(checkpoint, out)


@app.command()
def promote(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="What `pilotfish train --live --out RUN` wrote.")],
    released: Annotated[Path | None, typer.Option(help="The model folder to replace; the one that is shipped.")] = None,
) -> None:
    """Release the candidate of a live run; refused unless it has won its examination."""
    from training.contestants import DEFAULT_FOLDER
    from training.promote import run

    run(folder, released or DEFAULT_FOLDER)


@app.command()
def card(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model folder.")],
    results: Annotated[Path | None, typer.Option(help="What `pilotfish evaluate MODEL --json` wrote.")] = None,
) -> None:
    """Put results into a model's manifest and make its card again."""
    from training.card import run

    typer.echo(f"wrote the card of {run(model, results).label}")


@app.command("train-gpu")
def train_gpu(
    traces: Annotated[Path, typer.Option(help="The folder with the public traces; openb is needed.")],
    config: Annotated[Path | None, typer.Option(help="A YAML file; training/configs/gpu.yaml if not given.")] = None,
    out: Annotated[Path, typer.Option(help="The model folder.")] = Path("runs/gpu"),
    start: Annotated[Path | None, typer.Option(help="A GPU model: begin with its weights, search on.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line for each generation.")] = False,
) -> None:
    """Tune the model for pods that ask for GPUs."""
    from training.gpu_config import CONFIG
    from training.release_gpu import run

    run(traces, config or CONFIG, out, as_json, start)


@app.command()
def scenarios(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line for each scenario.")] = False,
) -> None:
    """List the simulated worlds."""
    from training.scenarios import run

    run(as_json=as_json)


@record_app.command("pack")
def record_pack(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="A recording: a folder of segments, or one segment.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The new folder for the parquet files.")],
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Count malformed lines instead of stopping.")] = False,
) -> None:
    """Turn a recording into parquet."""
    from training.record import pack

    typer.echo(pack(source, out, skip_bad=skip_bad))


@app.command("shadow-report")
def shadow_report(
    recording: Annotated[Path, typer.Argument(metavar="RECORDING", help="What the sidecar recorded.")],
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw agreement and costs over time into this PNG file.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Count malformed lines instead of stopping.")] = False,
) -> None:
    """Compare what Pilotfish would have chosen with what the scheduler chose."""
    from training.shadow_report import run

    run(recording, as_json=as_json, plot=plot, skip_bad=skip_bad)
