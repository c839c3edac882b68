from pathlib import Path

import pytest

from agent.errors import InputError
from serving.configuration import load_settings
from serving.settings import Settings, settings_rows, settings_table

DOCS = Path(__file__).parents[2] / "docs"


def test_the_table_in_the_docs_is_the_table_of_the_code():
    assert settings_table() in (DOCS / "settings.md").read_text(), "python -m serving.settings prints the new table"


def test_every_setting_says_what_it_means():
    assert [variable for variable, _, meaning in settings_rows() if not meaning] == []


def test_listens_on_loopback_by_default():
    assert Settings().server.host == "127.0.0.1"


def test_the_environment_sets_single_fields(monkeypatch):
    monkeypatch.setenv("PILOTFISH_BREAKER__FAILURES_TO_OPEN", "7")
    settings = load_settings()
    assert settings.breaker.failures_to_open == 7
    assert settings.breaker.cooldown_s == 30.0


def test_what_is_given_goes_before_the_environment_and_none_does_not(monkeypatch):
    monkeypatch.setenv("PILOTFISH_SERVER__PORT", "9001")
    monkeypatch.setenv("PILOTFISH_SERVER__HOST", "127.0.0.9")
    server = load_settings(server={"port": 9002, "host": None}).server
    assert (server.port, server.host) == (9002, "127.0.0.9")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PILOTFISH_SERVER__PORT", "http"),
        ("PILOTFISH_SERVER__PORT", "70000"),
        ("PILOTFISH_SERVER__PROT", "8000"),
        ("PILOTFISH_LADDER__MIN_FRESH_SHARE", "1.5"),
        ("PILOTFISH_LADDER__DEADLINE_MS", "nan"),
        ("PILOTFISH_SIMULATION__SPEED", "0"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    with pytest.raises(InputError, match=variable):
        load_settings()


def test_a_group_that_is_no_json_is_refused(monkeypatch):
    monkeypatch.setenv("PILOTFISH_SERVER", "port=8000")
    with pytest.raises(InputError, match="server"):
        load_settings()
