"""A search on a real Ray of two workers; what is trained is a stand-in that knows the best values."""

from __future__ import annotations

import json
import math
import os
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

import pilotfish
from agent.errors import InputError
from tests.training.test_train import tiny
from training.config import load_config
from training.search_space import Choices, Range, changed, present
from training.tune import (
    KEEP,
    QUIET,
    RUNGS,
    Search,
    Trial,
    _start,
    draw,
    keep,
    last_run,
    run,
    search_with_ray,
    show,
    train_one,
)

pytestmark = pytest.mark.timeout(400)  # starting Ray is slow on a busy machine

SPACE = {"learning.first_rate": Range(low=1e-4, high=1e-1, log=True), "network.hidden": Choices(choices=[16, 64])}
TARGET = 3e-3


@pytest.fixture(scope="module")
def base():
    config = load_config("default")
    return config.model_copy(update={"decisions": 9_000})


def stand_in(deaths=None):
    """Costs fall with the decisions to a floor that depends on the values; may kill its own worker once."""

    def trainer(config, out, report):
        import os
        import signal
        import time
        from pathlib import Path

        out.mkdir(parents=True, exist_ok=True)
        Path(out, f"worker-{os.getpid()}").touch()
        floor = 0.7 + 0.1 * abs(math.log10(config.learning.first_rate / TARGET)) + 0.1 * (config.network.hidden == 16)
        for decisions in range(1_000, config.decisions + 1, 1_000):
            report(SimpleNamespace(decisions=decisions, relative_cost=floor + 0.3 * math.exp(-decisions / 3_000)))
            time.sleep(0.02)
            marker = None if deaths is None else Path(deaths, "died")
            if marker is not None and decisions >= 3_000 and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    return trainer


@pytest.fixture(scope="module")
def searched(base, tmp_path_factory):
    """One search for many tests; a worker is killed in the middle of a trial."""
    out = tmp_path_factory.mktemp("tune")
    return out, search_with_ray(base, SPACE, Search(samples=5, workers=2), out, stand_in(deaths=out))


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_every_trial_completes(searched):
    out, trials = searched
    assert (out / "died").exists()
    assert len(trials) == 5
    assert not any(trial.failed for trial in trials)
    workers = [len(list(folder.glob("worker-*"))) for folder in (out / "trials").iterdir()]
    assert sorted(workers) == [1, 1, 1, 1, 2]  # the killed one was begun again by another process


@pytest.mark.slow
def test_best_is_first_and_its_configuration_can_be_trained_with(searched, base):
    out, trials = searched
    assert [trial.best for trial in trials] == sorted(trial.best for trial in trials)
    keep(base, trials, out)
    assert load_config(str(out / "best.yaml")) == changed(base, trials[0].values)
    assert json.loads((out / "trials.json").read_text())["best"]["values"] == trials[0].values
    assert (out / "trials.png").stat().st_size > 10_000
    assert not list(out.glob("*.part*"))


@pytest.mark.slow
def test_the_configuration_itself_is_among_the_trials(searched, base):
    _, trials = searched
    own = {"learning.first_rate": base.learning.first_rate, "network.hidden": base.network.hidden}
    assert own in [trial.values for trial in trials]


@pytest.mark.slow
def test_trials_that_are_behind_are_stopped_early(searched, base):
    _, trials = searched
    assert trials[0].decisions[-1] == base.decisions
    assert min(trial.decisions[-1] for trial in trials) < base.decisions
    assert min(trial.decisions[-1] for trial in trials) >= base.decisions // KEEP ** (RUNGS - 1)


@pytest.mark.slow
def test_ray_is_told_not_to_report_and_has_no_dashboard(searched):
    import ray

    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert QUIET["RAY_USAGE_STATS_ENABLED"] == "0"
    assert not ray.is_initialized()  # what was started was stopped


@pytest.mark.slow
def test_an_address_without_a_ray_is_one_clear_error(base, tmp_path):
    search = Search(samples=1, ray_address="not-an-address")
    with pytest.raises(InputError, match="--ray-address not-an-address"):
        search_with_ray(base, SPACE, search, tmp_path, stand_in())


# --- without Ray


def test_a_ray_that_was_slow_to_start_is_started_again():
    tried = []

    def start(failures: int, message: str) -> None:
        tried.append(message)
        if len(tried) <= failures:
            raise Exception(message)

    slow = "The current node timed out during startup."
    _start(lambda: start(2, slow))
    assert len(tried) == 3
    tried.clear()
    with pytest.raises(Exception, match="timed out during startup"):
        _start(lambda: start(9, slow))
    assert len(tried) == 3
    tried.clear()
    with pytest.raises(Exception, match="no such port"):
        _start(lambda: start(9, "no such port"))
    assert len(tried) == 1


@pytest.fixture
def found() -> list[Trial]:
    values = {"learning.first_rate": TARGET, "network.hidden": 64}
    worse = {"learning.first_rate": 0.05, "network.hidden": 16}
    return [
        Trial(values, [1_000, 5_000, 9_000], [1.1, 0.9, 0.8], failed=False),
        Trial(worse, [1_000], [1.4], failed=False),
        Trial(worse, [], [], failed=True),
    ]


def test_the_best_look_at_a_trial_counts_not_its_last():
    assert Trial({}, [1, 2, 3], [1.0, 0.7, 0.9], failed=False).best == 0.7
    assert Trial({}, [1, 2], [math.nan, 0.9], failed=False).best == 0.9
    assert Trial({}, [], [], failed=True).best == math.inf


def test_what_a_dead_worker_reported_is_forgotten_where_its_trial_began_again():
    assert last_run([(1, 0.9), (2, 0.8), (1, 1.0), (3, 0.7)]) == [(1, 1.0), (3, 0.7)]
    assert last_run([(1, 0.9), (2, 0.8)]) == [(1, 0.9), (2, 0.8)]
    assert last_run([]) == []


def test_what_was_reported_before_a_trial_went_on_from_its_checkpoint_is_kept():
    assert last_run([(0, 1.0), (1, 0.9), (2, 0.8), (2, 0.8), (3, 0.7)]) == [(0, 1.0), (1, 0.9), (2, 0.8), (3, 0.7)]
    assert last_run([(0, 1.0), (1, 0.9), (2, 0.8), (1, 0.9), (2, 0.7)]) == [(0, 1.0), (1, 0.9), (2, 0.7)]


@pytest.mark.slow
def test_a_trial_whose_worker_died_goes_on_from_its_checkpoint(tmp_path):
    def reports(folder, dies_after=None) -> list[tuple[int, float]]:
        seen = []

        def report(metrics) -> None:
            seen.append((metrics.decisions, metrics.relative_cost))
            if len(seen) == dies_after:
                raise RuntimeError("killed")

        if dies_after is None:
            train_one(tiny(), tmp_path / folder, report)
        else:
            with pytest.raises(RuntimeError, match="killed"):
                train_one(tiny(), tmp_path / folder, report)
        return seen

    before, after = reports("trial", dies_after=2), reports("trial")
    assert after[0] == before[-1] != before[0]  # it looks once more where it was, not at the start
    assert last_run(before + after) == reports("never killed")


def test_pictures_are_drawn_with_trials_that_never_began(found, tmp_path):
    draw(found, tmp_path / "trials.png")
    assert [path.name for path in tmp_path.iterdir()] == ["trials.png"]


def command(out, as_json: bool) -> None:
    search = Search(samples=3)
    run(config="default", space="default", scenarios=["edge"], steps=9_000, search=search, out=out, as_json=as_json)


@pytest.fixture
def without_ray(monkeypatch) -> list[object]:
    asked = []

    def searched(config, space, search, out, trainer):
        asked.append((config, search))
        values = present(config, space) | {"learning.first_rate": TARGET}
        return [Trial(values, [9_000], [0.8], failed=False)]

    monkeypatch.setattr("training.tune.search_with_ray", searched)
    return asked


def test_options_reach_the_search_and_json_has_the_best(without_ray, tmp_path, capsys):
    command(tmp_path / "new", as_json=True)
    (config, search), told = without_ray[0], json.loads(capsys.readouterr().out)
    assert ([world.scenario for world in config.worlds], config.decisions) == (["edge"], 9_000)
    assert search.samples == 3
    assert told["best"]["relative_cost"] == 0.8
    assert told["best"]["values"]["learning.first_rate"] == TARGET


def test_best_configuration_has_its_own_length_and_heads_not_those_of_a_trial(without_ray, tmp_path):
    command(tmp_path, as_json=True)
    (trial, _), own, best = without_ray[0], load_config("default"), load_config(str(tmp_path / "best.yaml"))
    assert (trial.decisions, trial.worlds[0].own_head) == (9_000, 0)
    assert best.decisions == own.decisions
    assert best.worlds == [world for world in own.worlds if world.scenario == "edge"]
    assert best.worlds[0].own_head > 0
    assert best.learning.first_rate == TARGET


def test_table_shows_every_trial(found, capsys):
    show(found, SPACE, Console(width=120))
    text = capsys.readouterr().out
    assert all(part in text for part in ("0.8000", "9,000", "1.4000", "failed", "0.003"))


def test_how_to_go_on_is_said(without_ray, tmp_path, capsys):
    command(tmp_path, as_json=False)
    assert f"pilotfish train --config {tmp_path / 'best.yaml'}" in capsys.readouterr().out


def test_the_command_says_what_it_takes():
    told = CliRunner().invoke(pilotfish.app, ["tune", "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).output
    for option in ("--scenario", "--samples", "--minutes", "--ray-address", "--out", "--json"):
        assert option in told
