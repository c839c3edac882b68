"""``pilotfish scenarios``: which worlds there are."""

from __future__ import annotations

import json

import typer
from rich.console import Console
from rich.table import Table

from envs.workloads.scenario import load_scenario, scenario_names


def run(*, as_json: bool = False) -> None:
    """Every scenario with its description and number of nodes."""
    found = [load_scenario(name) for name in scenario_names()]
    if as_json:
        for scenario in found:
            nodes = scenario.nodes.count.model_dump()
            typer.echo(json.dumps({"name": scenario.name, "description": scenario.description, "nodes": nodes}))
        return
    table = Table("scenario", "nodes", "description")
    for scenario in found:
        low, high = scenario.nodes.count.low, scenario.nodes.count.high
        table.add_row(scenario.name, f"{low:g}" if low == high else f"{low:g} to {high:g}", scenario.description)
    Console().print(table)
