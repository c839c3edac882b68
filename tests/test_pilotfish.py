from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pilotfish

PYPROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
LIBRARIES_OF_EXTRAS = {"fastapi", "uvicorn", "gymnasium", "numba", "torch", "stable_baselines3", "matplotlib", "polars"}


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["pilotfish", *arguments])
    with pytest.raises(SystemExit) as end:
        pilotfish.main()
    return end.value.code


def test_version_is_that_of_the_distribution(monkeypatch, capsys):
    assert command(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"pilotfish {PYPROJECT['project']['version']}\n"


def test_help_names_every_command(monkeypatch, capsys):
    assert command(monkeypatch, "--help") == 0
    shown = capsys.readouterr().out
    for name in ("benchmark", "simulate", "scenarios", "record", "demo", "serve"):
        assert re.search(rf"\b{name}\b", shown), name


def test_bad_input_is_one_line_with_the_choices_and_exit_code_2(monkeypatch, capsys):
    assert command(monkeypatch, "benchmark", "no-such") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(r"pilotfish: no benchmark no-such; there are .*\n", captured.err)


def test_benchmark_of_an_installed_wheel_points_to_the_repository(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "benchmarks.report", None)
    assert command(monkeypatch, "benchmark", "env") == 2
    assert re.fullmatch(r"pilotfish: benchmarks live in the repository.*\n", capsys.readouterr().err)


@pytest.mark.parametrize(("module", "extra"), [("numba.core", "train"), ("fastapi", "serve"), ("ray", "tune")])
def test_missing_extra_is_named_in_one_line(monkeypatch, capsys, module, extra):
    monkeypatch.setattr(pilotfish, "app", lambda: importlib.import_module(module))
    monkeypatch.setitem(sys.modules, module, None)
    assert command(monkeypatch) == 2
    assert re.fullmatch(rf"pilotfish: this command needs \w+: .*pilotfish\[{extra}\]'\n", capsys.readouterr().err)


def test_a_missing_module_of_ours_is_a_defect_and_not_hidden(monkeypatch):
    monkeypatch.setattr(pilotfish, "app", lambda: importlib.import_module("agent.no_such"))
    with pytest.raises(ModuleNotFoundError):
        pilotfish.main()


def test_every_library_of_an_extra_is_known_to_the_message():
    extras_of: dict[str, list[str]] = {}
    for extra in ("serve", "train", "tune"):
        for requirement in PYPROJECT["project"]["optional-dependencies"][extra]:
            module = re.match(r"[\w-]+", requirement)[0].replace("-", "_")
            extras_of.setdefault(module, []).append(extra)
    for module, extras in extras_of.items():
        assert pilotfish.EXTRA_OF_MODULE[module] == extras[0]  # of two the lighter, named first


def test_loading_the_command_loads_no_library_of_an_extra():
    code = "import sys, pilotfish; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert LIBRARIES_OF_EXTRAS.isdisjoint(loaded)
