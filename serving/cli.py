"""The commands of serving: they read options and call ``serving.run``, which is imported only when it is used."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer()

# An option that is not given leaves the word to the environment, and then to the defaults of serving.settings.
Host = Annotated[str | None, typer.Option(help="The address to listen on; 127.0.0.1 if not set.")]
Port = Annotated[int | None, typer.Option(min=1, max=65535, help="The port to listen on; 8000 if not set.")]


@app.command()
def demo(
    host: Host = None,
    port: Port = None,
    scenario: Annotated[str | None, typer.Option(help="The simulated world; microservices if not set.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The seed of the simulated world.")] = None,
) -> None:
    """Serve scores over an embedded simulated cluster: nothing to set up, nothing to break."""
    from serving.run import demo

    demo(host=host, port=port, scenario=scenario, seed=seed)


@app.command()
def serve(host: Host = None, port: Port = None) -> None:
    """Serve scores as the settings say."""
    from serving.run import serve

    serve(host=host, port=port)
