"""The commands of serving: they read options and call ``serving.run``, which is imported only when it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import serving.manifests.cli

app = typer.Typer()
app.add_typer(serving.manifests.cli.app)

config_app = typer.Typer(name="config", no_args_is_help=True, help="The settings: which, and from where.")
app.add_typer(config_app)

# An option that is not given leaves the word to the environment, then to the file, then to the defaults.
Host = Annotated[str | None, typer.Option(help="The address to listen on; 127.0.0.1 if not set.")]
Port = Annotated[int | None, typer.Option(min=1, max=65535, help="The port to listen on; 8000 if not set.")]
Config = Annotated[Path | None, typer.Option(help="A YAML file of settings; else PILOTFISH_CONFIG names one.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="group.field=value, for any setting; may be given often.")]
AsJson = Annotated[bool, typer.Option("--json", help="As one JSON object.")]


@app.command()
def demo(
    host: Host = None,
    port: Port = None,
    scenario: Annotated[str | None, typer.Option(help="The simulated world; microservices if not set.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The seed of the simulated world.")] = None,
    config: Config = None,
    assignments: Set = None,
) -> None:
    """Serve scores over an embedded simulated cluster: nothing to set up, nothing to break."""
    from serving.configuration import ConfigurationSource
    from serving.run import run

    options: dict[str, dict[str, object]] = {
        "server": {"host": host, "port": port},
        "cluster": {"source": "simulation"},
        "simulation": {"scenario": scenario, "seed": seed},
    }
    run(ConfigurationSource(config, options, assignments or ()))


@app.command()
def serve(host: Host = None, port: Port = None, config: Config = None, assignments: Set = None) -> None:
    """Serve scores as the settings say: over a real cluster, unless they name the simulation."""
    from serving.configuration import ConfigurationSource
    from serving.run import run

    run(ConfigurationSource(config, {"server": {"host": host, "port": port}}, assignments or ()))


@config_app.command("show")
def config_show(config: Config = None, assignments: Set = None, as_json: AsJson = False) -> None:
    """Print the settings in force, each with its source; secrets are masked."""
    from serving.configuration import ConfigurationSource
    from serving.configuration_text import as_json_text, as_yaml

    found = ConfigurationSource(config, {}, assignments or ()).read()
    typer.echo(as_json_text(found) if as_json else as_yaml(found))


@config_app.command("validate")
def config_validate(config: Config = None, assignments: Set = None) -> None:
    """Check the settings: exit code 0 and one line, or 2 and what is wrong."""
    from serving.configuration import ConfigurationSource
    from serving.configuration_text import verdict
    from serving.measuring import chosen

    found = ConfigurationSource(config, {}, assignments or ()).read()
    chosen(found.settings)
    typer.echo(verdict(found))


@config_app.command("schema")
def config_schema() -> None:
    """Print the JSON schema of the settings file."""
    from serving.configuration_text import schema_text

    typer.echo(schema_text())
