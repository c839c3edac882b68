"""Where settings come from, and what `pilotfish config` says of them."""

import json
import os
import subprocess
import sys

import pytest
import yaml
from pydantic import SecretStr
from typer.testing import CliRunner

import serving.cli
from agent.errors import InputError
from serving.configuration import ConfigurationSource, is_secret
from serving.settings import Settings


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch):
    monkeypatch.delenv("PILOTFISH_CLUSTER__SOURCE")  # which tests/conftest.py sets


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "pilotfish.yaml"
        path.write_text(text)
        return path

    return write


def read(path=None, assignments=(), **options):
    return ConfigurationSource(path, options, assignments).read()


def test_flags_go_before_the_environment_before_the_file_before_the_defaults(file, monkeypatch):
    path = file("server: {port: 1111, host: 127.0.0.1, max_nodes: 11}\nladder: {deadline_ms: 11}")
    monkeypatch.setenv("PILOTFISH_SERVER__PORT", "2222")
    monkeypatch.setenv("PILOTFISH_SERVER__HOST", "127.0.0.2")
    found = read(path, server={"port": 3333, "host": None})
    server = found.settings.server
    assert (server.port, server.host, server.max_nodes) == (3333, "127.0.0.2", 11)
    assert found.settings.ladder.deadline_ms == 11
    assert found.settings.breaker == Settings().breaker
    assert found.sources["server", "port"] == "--port"
    assert found.sources["server", "host"] == "PILOTFISH_SERVER__HOST"
    assert found.sources["server", "max_nodes"] == f"{path}: server.max_nodes"
    assert found.sources["server", "max_body_bytes"] == "default"


def test_the_file_can_be_named_by_the_environment(file, monkeypatch):
    monkeypatch.setenv("PILOTFISH_CONFIG", str(file("server: {port: 1111}")))
    assert read().settings.server.port == 1111


def test_any_setting_can_be_set_on_the_command_line():
    found = read(assignments=["ladder.deadline_ms=7", "model.folder=none"])
    assert (found.settings.ladder.deadline_ms, found.settings.model.folder) == (7, "none")
    assert found.sources["model", "folder"] == "--set model.folder"


@pytest.mark.parametrize("text", ["", "# nothing\n", "server:\n"])
def test_an_empty_file_changes_nothing(file, text):
    assert read(file(text)).settings == Settings()


def test_off_is_a_word_and_true_is_not(file):
    from serving.configuration import _parsed

    assert _parsed("{mode: off, other: no, really: true, number: 1e3}") == {
        "mode": "off",
        "other": "no",
        "really": True,
        "number": "1e3",
    }


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("server: {prot: 1}", r"pilotfish\.yaml: server\.prot: no such setting; choose from .*port"),
        ("servr: {port: 1}", r"pilotfish\.yaml: servr: no group is called 'servr'; choose from .*server"),
        ("server: {port: http}", r"pilotfish\.yaml: server\.port: Input should be a valid integer"),
        ("server: 5", "must hold groups of settings"),
        ("- a\n- b", "must hold groups of settings"),
        ("server: {port: 1", "not YAML"),
        ("\x00", "not YAML"),
        ("5: {port: 1}", "no group is called '5'"),
        ("server: {5: 1}", "no such setting"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place_and_the_choices(file, text, named):
    with pytest.raises(InputError, match=named):
        read(file(text))


def test_a_file_that_is_missing_or_far_too_long_is_refused(file, tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read(tmp_path / "nowhere.yaml")
    with pytest.raises(InputError, match="longer than"):
        read(file("# " + "x" * (1 << 20)))


@pytest.mark.parametrize(
    ("assignment", "named"),
    [
        ("port=1", "write it as group.field=value"),
        ("server.port", "write it as group.field=value"),
        ("server.prot=1", "--set server.prot: no such setting; choose from host, port"),
        ("server.port=0", "--set server.port: Input should be greater"),
        ("server.port={", "cannot be read"),
    ],
)
def test_a_wrong_assignment_is_refused(assignment, named):
    with pytest.raises(InputError, match=named):
        read(assignments=[assignment])


def test_an_unknown_group_in_the_environment_is_refused_and_a_services_variables_are_not(monkeypatch):
    monkeypatch.setenv("PILOTFISH_SERVICE_HOST", "10.0.0.1")  # as the kubelet sets it for a service of that name
    monkeypatch.setenv("PILOTFISH_PORT", "tcp://10.0.0.1:80")
    assert read().settings == Settings()
    monkeypatch.setenv("PILOTFISH_SERVR__PORT", "1")
    with pytest.raises(InputError, match="PILOTFISH_SERVR__PORT: no group is called 'servr'"):
        read()


# --- pilotfish config


def config(*arguments):
    return CliRunner().invoke(serving.cli.app, ["config", *arguments])


def test_show_prints_a_file_that_reads_as_the_same_settings(file, tmp_path, monkeypatch):
    monkeypatch.setenv("PILOTFISH_SERVER__PORT", "2222")
    shown = config("show", "--config", str(file("ladder: {deadline_ms: 11}"))).output
    assert "PILOTFISH_SERVER__PORT" in shown
    assert "# default" in shown
    monkeypatch.delenv("PILOTFISH_SERVER__PORT")
    (tmp_path / "again.yaml").write_text(shown)
    again = read(tmp_path / "again.yaml").settings
    assert (again.server.port, again.ladder.deadline_ms) == (2222, 11)
    assert yaml.safe_load(shown)["simulation"]["scenario"] == "microservices"


def test_show_gives_value_and_source_as_json():
    shown = json.loads(config("show", "--json", "--set", "server.port=9").output)
    assert shown["server"]["port"] == {"value": 9, "source": "--set server.port"}
    assert shown["server"]["host"]["source"] == "default"


def test_secrets_are_masked_and_the_names_of_their_files_are_not():
    assert is_secret("anything", SecretStr("x"))
    assert is_secret("token", "abc")
    assert not is_secret("token_file", "/run/token")
    assert not is_secret("token", "")
    assert not is_secret("max_tokens", 5)


def test_validate_says_what_is_given(file):
    outcome = config("validate", "--config", str(file("ladder: {deadline_ms: 11}")))
    assert outcome.exit_code == 0
    assert outcome.output.startswith("valid: 1 settings given")


def test_validate_of_a_wrong_file_is_one_line_and_exit_code_2(file):
    command = [sys.executable, "-m", "pilotfish", "config", "validate", "--config", str(file("server: {prot: 1}"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=40, env=os.environ, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "server.prot: no such setting" in done.stderr


def test_the_schema_describes_every_group():
    schema = json.loads(config("schema").output)
    assert set(schema["properties"]) == set(Settings.model_fields)
    assert schema["$defs"]["ServerSettings"]["additionalProperties"] is False


def test_settings_that_do_not_fit_together_are_said_of_their_group():
    with pytest.raises(InputError, match=r"^settings: prometheus: window_s 1 must hold two scrapes, at least 30$"):
        ConfigurationSource(assignments=["prometheus.window_s=1"]).read()


def test_validate_finds_what_would_stop_the_start():
    outcome = CliRunner().invoke(serving.cli.app, ["config", "validate", "--set", "cluster.metrics=prometheus"])
    assert "no Prometheus is named" in str(outcome.exception)
