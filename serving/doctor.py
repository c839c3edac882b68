"""``pilotfish doctor``: asks Prometheus what the sidecar would ask it, and says which node has no series and why."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table

from envs.live.prometheus_client import PrometheusClient, PrometheusUnavailable
from envs.live.prometheus_diagnosis import GROUPS, Diagnosis, NodeHealth, diagnose
from envs.live.prometheus_mapping import Addresses
from envs.live.prometheus_observations import observations
from serving.settings import Settings

OK_EXIT_CODE, SICK_EXIT_CODE = 0, 1
WIDE = 160  # columns where the output is no terminal
FACTS = {"rx_mbps": "rx Mbps", "tx_mbps": "tx Mbps", "cpu_used_millicores": "CPU m", "memory_used_mib": "memory MiB"}


def examine(
    settings: Settings, addresses: Addresses, troubles: list[str], as_json: bool = False, observe: bool = False
) -> tuple[str, int]:
    """What to print, and the exit code: 0 if every node has fresh series; ``troubles`` are known already."""
    client = PrometheusClient(settings.prometheus.needs_an_address())
    try:
        found = diagnose(client, addresses, settings.ladder.stale_after_s)
        seen = observations(client, found, addresses) if observe else {}
    except PrometheusUnavailable as why:
        line = f"Prometheus: {why}"
        return json.dumps({"ok": False, "problems": [line], "nodes": []}) if as_json else line, SICK_EXIT_CODE
    finally:
        client.close()
    advice = [*troubles, *_advice(settings)]
    text = _as_json(settings, found, advice, seen) if as_json else _as_table(settings, found, advice, seen)
    return text, OK_EXIT_CODE if found.ok else SICK_EXIT_CODE


def _advice(settings: Settings) -> list[str]:
    assumed_s, window_s = settings.assumed.window_s, settings.prometheus.window_s
    if assumed_s == window_s:
        return []
    why = "set them equal, or placements count twice or not at all"
    return [f"assumed.window_s is {assumed_s:g} and prometheus.window_s {window_s:g}: {why}"]


def _as_json(settings: Settings, found: Diagnosis, advice: list[str], seen: dict[str, dict[str, float | None]]) -> str:
    report: dict[str, Any] = {
        "ok": found.ok,
        "prometheus": settings.prometheus.address,
        "label": found.label,
        "problems": list(found.problems),
        "advice": advice,
        "nodes": [
            {
                "name": node.name,
                "ok": node.ok,
                "ages_s": {group: round(age_s, 1) for group, age_s in node.ages_s.items()},
                "values": dict(node.values),
                "wrong": dict(node.wrong),
                "notes": list(node.notes),
                **({"observations": seen[node.name]} if node.name in seen else {}),
            }
            for node in found.nodes
        ],
    }
    return json.dumps(report, indent=2)


def _as_table(settings: Settings, found: Diagnosis, advice: list[str], seen: dict[str, dict[str, float | None]]) -> str:
    console = Console(width=WIDE, no_color=True)
    with console.capture() as captured:
        console.print(f"Prometheus at {settings.prometheus.address}, nodes told apart by the label {found.label}")
        console.print(_table(found))
        if seen:
            console.print(_observed(seen))
        for line in (*found.problems, *advice):
            console.print(f"- {line}", highlight=False, markup=False)
        console.print(_summary(found))
    return captured.get().rstrip()


def _table(found: Diagnosis) -> Table:
    table = Table("node", "ok", *(f"{group} age s" for group in GROUPS), *FACTS.values(), "NIC Mbps", "why", "notes")
    for node in found.nodes:
        ages = [f"{node.ages_s[group]:.0f}" if group in node.ages_s else "-" for group in GROUPS]
        values = [_figure(node, column) for column in (*FACTS, "nic_mbps")]
        why = "; ".join(f"{group}: {reason}" for group, reason in _grouped(node).items())
        table.add_row(node.name, "yes" if node.ok else "NO", *ages, *values, why, "; ".join(node.notes))
    return table


def _grouped(node: NodeHealth) -> dict[str, str]:
    """One line where all groups have the same trouble."""
    return {"all": next(iter(node.wrong.values()))} if len(set(node.wrong.values())) == 1 else dict(node.wrong)


def _figure(node: NodeHealth, column: str) -> str:
    return f"{node.values[column]:.0f}" if column in node.values else "-"


def _observed(seen: dict[str, dict[str, float | None]]) -> Table:
    names = list(next(iter(seen.values())))
    table = Table("node", *names)
    for node, values in seen.items():
        table.add_row(node, *("-" if values[name] is None else f"{values[name]:.2f}" for name in names))
    return table


def _summary(found: Diagnosis) -> str:
    sick = sum(not node.ok for node in found.nodes)
    return f"{len(found.nodes)} nodes, {sick} without fresh series" + ("" if found.ok else "; docs/prometheus.md helps")
