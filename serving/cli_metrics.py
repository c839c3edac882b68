"""The commands of serving that look at the metrics of a cluster; each imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from serving.cli import AsJson, Config, Set

app = typer.Typer()


@app.command()
def doctor(
    prometheus: Annotated[str | None, typer.Option(help="Its address, such as http://prometheus:9090.")] = None,
    observations: Annotated[
        bool, typer.Option("--observations", help="Also what the thesis observed (S1.18).")
    ] = False,
    config: Config = None,
    assignments: Set = None,
    as_json: AsJson = False,
) -> None:
    """Say which node has no series in Prometheus, and why: exit code 0 if all have, else 1."""
    from serving.configuration import ConfigurationSource
    from serving.doctor import examine
    from serving.known_nodes import known_nodes

    options = {"prometheus": {"address": prometheus}}
    settings = ConfigurationSource(config, options, assignments or ()).read().settings
    text, exit_code = examine(settings, *known_nodes(settings), as_json, observations)
    typer.echo(text)
    raise typer.Exit(exit_code)


def record_prometheus(  # a command of the group `record`, which pilotfish.py puts together
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The new folder of the recording.")],
    from_: Annotated[str, typer.Option("--from", help="2026-08-16T10:00:00Z, unix seconds, or -6h.")],
    to: Annotated[str, typer.Option("--to", help="The same, or now.")] = "now",
    step_s: Annotated[int, typer.Option("--step", min=1, max=3600, help="Seconds between the samples.")] = 15,
    prometheus: Annotated[str | None, typer.Option(help="Its address, such as http://prometheus:9090.")] = None,
    config: Config = None,
    assignments: Set = None,
) -> None:
    """Record the past of a cluster from Prometheus, to train on it."""
    from serving.configuration import ConfigurationSource
    from serving.record_prometheus import record

    options = {"prometheus": {"address": prometheus}}
    settings = ConfigurationSource(config, options, assignments or ()).read().settings
    typer.echo(record(settings.prometheus, out, from_, to, float(step_s)))


@app.command()
def probe(
    target: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where the users are, or something near them.")],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")] = 8100,
) -> None:
    """Measure the latency to a target and answer GET / with it, in milliseconds; one on each node."""
    from serving.run_probe import run_probe

    run_probe(target, host, port)
