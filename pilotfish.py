"""The command ``pilotfish``: composes the commands of training and serving, and gives every user error one line.

Importing this loads no library of an extra: each command imports what it needs when it runs.
"""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

import serving.cli
import serving.cli_metrics
import training.cli
from agent.errors import InputError

# Which extra brings a module, for the message when it is missing.
EXTRA_OF_MODULE = {
    **dict.fromkeys(("fastapi", "onnxruntime", "orjson", "prometheus_client", "pydantic_settings", "uvicorn"), "serve"),
    **dict.fromkeys(("httptools", "kubernetes", "msgspec", "prometheus_api_client", "requests", "urllib3"), "serve"),
    **dict.fromkeys(("gymnasium", "matplotlib", "numba", "onnx", "polars", "pyarrow", "scipy"), "train"),
    **dict.fromkeys(("cloudpickle", "sb3_contrib", "stable_baselines3", "tensorboard", "torch"), "train"),
    "ray": "tune",
    "opentelemetry": "otel",
}

BAD_INPUT_EXIT_CODE = 2

app = typer.Typer(name="pilotfish", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
training.cli.record_app.command("prometheus")(serving.cli_metrics.record_prometheus)
app.add_typer(training.cli.app)
app.add_typer(serving.cli.app)
app.add_typer(serving.cli_metrics.app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pilotfish {version('pilotfish')}")
        raise typer.Exit


@app.callback()
def pilotfish(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """A sidecar that helps kube-scheduler choose nodes by resources and network traffic."""


@app.command()
def benchmark(
    name: Annotated[str, typer.Argument(help="Which benchmark, for example env or fgd.")],
    quick: Annotated[bool, typer.Option("--quick", help="A short run: shows that it works, proves no bar.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line for each bar.")] = False,
    traces: Annotated[Path | None, typer.Option(help="The folder with the public traces.")] = None,
) -> None:
    """Measure, and compare with the goals of benchmarks/goals.yaml (in the repository only)."""
    _benchmark_report().show(name, quick=quick, as_json=as_json, traces=traces)


def _benchmark_report() -> Any:
    try:
        return importlib.import_module("benchmarks.report")
    except ModuleNotFoundError as missing:
        if missing.name not in ("benchmarks", "benchmarks.report"):
            raise
        why = "benchmarks live in the repository, not in the installed package: clone it and run `make bench` there"
        raise InputError(why) from missing


def _missing_extra(error: ModuleNotFoundError) -> str | None:
    """One line that names the extra to install, if the missing module belongs to one."""
    module = (error.name or "").partition(".")[0]
    extra = EXTRA_OF_MODULE.get(module)
    return extra and f"this command needs {module}: install the extra with pip install 'pilotfish[{extra}]'"


def main() -> None:
    try:
        app()
    except InputError as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        line = _missing_extra(error)
        if line is None:
            raise
        _fail(line)


def _fail(line: str) -> None:
    typer.echo(f"pilotfish: {line}", err=True)
    sys.exit(BAD_INPUT_EXIT_CODE)


if __name__ == "__main__":
    main()
