"""The commands of serving: what is not given as an option is left to the environment, and then to the defaults."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import serving.cli
from serving.configuration import ConfigurationSource
from serving.settings import Settings


@pytest.fixture
def started(monkeypatch):
    """Runs a command without listening anywhere, and gives the settings it would have run with."""

    def start(*arguments: str) -> Settings:
        runs: list[ConfigurationSource] = []
        monkeypatch.setattr("serving.run.run", runs.append)
        outcome = CliRunner().invoke(serving.cli.app, list(arguments))
        assert outcome.exit_code == 0, outcome.output
        return runs[0].read().settings

    return start


@pytest.mark.parametrize("command", ["demo", "serve"])
def test_the_environment_sets_what_no_option_gives(started, monkeypatch, command):
    monkeypatch.setenv("PILOTFISH_SERVER__PORT", "9123")
    monkeypatch.setenv("PILOTFISH_SERVER__HOST", "127.0.0.9")
    monkeypatch.setenv("PILOTFISH_SIMULATION__SCENARIO", "edge")
    settings = started(command)
    assert (settings.server.port, settings.server.host) == (9123, "127.0.0.9")
    assert settings.simulation.scenario == "edge"


@pytest.mark.parametrize("command", ["demo", "serve"])
def test_an_option_beats_the_environment(started, monkeypatch, command):
    monkeypatch.setenv("PILOTFISH_SERVER__PORT", "9123")
    monkeypatch.setenv("PILOTFISH_SERVER__HOST", "127.0.0.9")
    settings = started(command, "--port", "9200")
    assert (settings.server.port, settings.server.host) == (9200, "127.0.0.9")


def test_the_demo_takes_scenario_and_seed_as_options_too(started, monkeypatch):
    monkeypatch.setenv("PILOTFISH_SIMULATION__SEED", "7")
    settings = started("demo", "--scenario", "bursts", "--seed", "0")
    assert (settings.simulation.scenario, settings.simulation.seed) == ("bursts", 0)


@pytest.mark.parametrize("command", ["demo", "serve"])
def test_without_options_and_environment_the_defaults_hold(started, command):
    assert started(command) == Settings()


def test_a_port_that_cannot_be_is_refused():
    outcome = CliRunner().invoke(serving.cli.app, ["demo", "--port", "0"])
    assert outcome.exit_code == 2
    assert "--port" in outcome.output
