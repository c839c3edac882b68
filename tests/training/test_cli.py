"""Options that mean nothing are refused, not ignored."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

import pilotfish


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """What a live run would have been told."""
    told: list[dict[str, object]] = []
    live = SimpleNamespace(run_from_options=lambda *_, **options: told.append(options))
    monkeypatch.setitem(sys.modules, "training.live_train", live)  # the real one loads torch
    return told


def code_of(monkeypatch: pytest.MonkeyPatch, *options: str) -> object:
    monkeypatch.setattr(sys, "argv", ["pilotfish", "train", *options])
    with pytest.raises(SystemExit) as end:
        pilotfish.main()
    return end.value.code


@pytest.mark.parametrize(
    "option",
    ["--scenario edge", "--traces .", "--steps 5", "--minutes 0", "--seed 0"],
    ids=lambda text: text.split()[0],
)
def test_live_training_names_an_option_that_it_does_not_have(
    option: str, asked: list[object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, value = option.split()
    assert code_of(monkeypatch, "--live", name, value) == 2
    assert f"no option of --live: {name};" in " ".join(capsys.readouterr().err.split())
    assert not asked


def test_live_training_names_all_of_them_at_once(
    asked: list[object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(monkeypatch, "--live", "--minutes", "1", "--seed", "2", "--pods", "3") == 2
    assert "--minutes, --seed;" in " ".join(capsys.readouterr().err.split())


def test_live_training_takes_a_recording_for_its_examination(
    asked: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert code_of(monkeypatch, "--live", "--recording", "own", "--pods", "3") == 0
    assert (str(asked[0]["recording"]), asked[0]["pods"]) == ("own", 3)


@pytest.mark.parametrize(
    "option", ["--scenario edge", "--config my.yaml", "--seed 0"], ids=lambda text: text.split()[0]
)
def test_a_run_goes_on_as_it_began(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(monkeypatch, "--resume", *option.split()) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"no option of --resume: {option.split()[0]}; it goes on as it began" in said
