"""Neither a token nor a key is ever said aloud."""

from __future__ import annotations

import http.client
import ssl
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import serving.cli
from serving.configuration import load_settings
from serving.settings import Settings
from tests.serving.security.conftest import TOKENS
from tests.serving.test_run import free_port
from tests.serving.test_run import pilotfish as command

WRONG = "a-wrong-token-that-somebody-sent"


@pytest.fixture
def environment(ours, token_file) -> dict[str, str]:
    pair = ours.sign("sidecar")
    return {
        "PILOTFISH_SECURITY__CERTIFICATE_FILE": pair.certificate,
        "PILOTFISH_SECURITY__KEY_FILE": pair.key,
        "PILOTFISH_SECURITY__TOKEN_FILE": token_file,
        "PILOTFISH_MODEL__FOLDER": "none",
        "PILOTFISH_LOGGING__LEVEL": "debug",
    }


def secrets_of(environment: dict[str, str]) -> list[str]:
    """The tokens, and every line of the key but those that only frame it."""
    key = Path(environment["PILOTFISH_SECURITY__KEY_FILE"]).read_text().splitlines()
    return [*TOKENS, WRONG, *(line for line in key if "-----" not in line)]


def score(port: int, context: ssl.SSLContext, token: str) -> int:
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=5)
    connection.request("POST", "/v1/score", "not json", {"Authorization": f"Bearer {token}"})
    return connection.getresponse().status


def wait_for(port: int, context: ssl.SSLContext) -> None:
    until_s = time.monotonic() + 40
    while time.monotonic() < until_s:
        try:
            if score(port, context, TOKENS[0]) == 400:
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("never there")


def test_nothing_secret_reaches_the_log_of_a_process(environment, ours):
    port = free_port()
    context = ssl.create_default_context(cafile=ours.file)
    process = command("demo", "--port", str(port), **environment)
    try:
        wait_for(port, context)
        hidden = secrets_of(environment)
        assert score(port, context, WRONG) == 401
        Path(environment["PILOTFISH_SECURITY__TOKEN_FILE"]).write_text("\n".join([*TOKENS, "short"]))
        time.sleep(1.1)
        Path(environment["PILOTFISH_SECURITY__KEY_FILE"]).write_text(hidden[-1])
        assert score(port, context, TOKENS[1]) == 400
    finally:
        process.terminate()
        said = "".join(process.communicate(timeout=10))
    assert "stays in use" in said
    assert "stay valid" in said
    assert [secret for secret in hidden if secret in said] == []


def test_settings_hold_the_names_of_the_files_only(environment, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    shown = f"{settings!r}{settings.model_dump_json()}"
    assert settings.security != Settings.model_fields["security"].default
    assert [secret for secret in secrets_of(environment) if secret in shown] == []


def test_config_show_says_where_they_are_and_not_what_they_are(environment):
    outcome = CliRunner().invoke(serving.cli.app, ["config", "show"], env=environment)
    assert outcome.exit_code == 0
    assert environment["PILOTFISH_SECURITY__TOKEN_FILE"] in outcome.output
    assert [secret for secret in secrets_of(environment) if secret in outcome.output] == []
