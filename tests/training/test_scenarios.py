from __future__ import annotations

import json

from envs.workloads.scenario import load_scenario, scenario_names
from training import scenarios


def test_json_has_a_line_for_every_scenario(capsys):
    scenarios.run(as_json=True)
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [entry["name"] for entry in shown] == scenario_names()
    assert shown[0]["description"] == load_scenario(shown[0]["name"]).description


def test_table_names_every_scenario(capsys):
    scenarios.run()
    shown = capsys.readouterr().out
    assert all(name in shown for name in scenario_names())
