import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent.errors import InputError
from models.manifest import read_manifest, read_model
from tests.tiny_model import release
from training.card import put_in_place, run

ROOT = Path(__file__).parents[2]
WORLD = {"scenario_digest": "5ce9a710", "generator_version": 2, "weights_digest": "0ddba11"}


@pytest.fixture
def folder(model_folder, tmp_path):
    return shutil.copytree(model_folder, tmp_path / "model")


def a_result(folder, **changes):
    """A line as `pilotfish evaluate FOLDER --json` writes it, as far as a manifest takes it over."""
    difference = {"mean": -2.0, "ci95": 0.2, "percent": -20.0, "ci95_percent": 2.0}
    return {
        "scenario": "bursts",
        "seed": 1_000_000,
        **WORLD,
        "episodes": 200,
        "model": "policy",
        "models": {"released/default": read_model(folder)[0].sha256},
        "answered_share": 0.987,
        "best_baseline": "linear_mix",
        "policies": {
            "policy": {"cost": {"mean": 8.0, "ci95": 1.0}},
            "linear_mix": {"cost": {"mean": 10.0, "ci95": 1.0}, "model_minus_this": difference},
        },
    } | changes


def write(path, *results):
    path.write_text("".join(json.dumps(result) + "\n" for result in results))
    return path


def test_results_go_into_manifest_and_card_without_touching_the_model(folder, tmp_path):
    before, model = read_model(folder)
    after = run(folder, write(tmp_path / "r.jsonl", a_result(folder), a_result(folder, scenario="edge")))
    assert read_model(folder) == (after, model)
    assert [row.scenario for row in after.evaluation] == ["bursts", "edge"]
    assert after.model_copy(update={"evaluation": ()}) == before
    wanted = "| bursts | 200 | 8.00 | linear_mix | 10.00 | -20.0 % | -22.0 to -18.0 % | 98.7% |"
    assert wanted in (folder / "MODEL_CARD.md").read_text()


def test_every_row_names_the_world_that_was_played(folder, tmp_path):
    (row,) = run(folder, write(tmp_path / "r.jsonl", a_result(folder))).evaluation
    assert {key: getattr(row, key) for key in WORLD} == WORLD
    assert "`bursts` (generator 2, weights 0ddba11, scenario 5ce9a710)" in (folder / "MODEL_CARD.md").read_text()


def test_without_results_the_card_is_made_again_from_the_manifest(folder):
    card = (folder / "MODEL_CARD.md").read_text()
    (folder / "MODEL_CARD.md").write_text("scribbles")
    run(folder)
    assert (folder / "MODEL_CARD.md").read_text() == card


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"models": {"policy": "0" * 64}}, "line 2: of another model than default@"),
        ({"best_baseline": None}, "line 2: no result of `pilotfish evaluate --json` with a baseline"),
        ({"policies": {}}, "line 2: no result"),
        ({"episodes": "many"}, "line 2: no result"),
        ({"generator_version": "new"}, "line 2: no result"),
    ],
)
def test_results_that_do_not_fit_are_refused_and_nothing_is_written(folder, tmp_path, change, said):
    before = read_model(folder)
    with pytest.raises(InputError, match=said):
        run(folder, write(tmp_path / "r.jsonl", a_result(folder), a_result(folder, **change)))
    assert read_model(folder) == before


def test_a_file_of_results_that_is_not_there_is_named(folder, tmp_path):
    with pytest.raises(InputError, match=r"gone\.jsonl: No such file"):
        run(folder, tmp_path / "gone.jsonl")


def test_a_result_that_does_not_name_its_world_is_refused(folder, tmp_path):
    result = {key: value for key, value in a_result(folder).items() if key != "scenario_digest"}
    with pytest.raises(InputError, match=r"line 1: no result .*scenario_digest"):
        run(folder, write(tmp_path / "r.jsonl", result))


# --- make train-default


def test_a_model_without_results_does_not_take_the_place_of_the_released_one(folder, tmp_path):
    released = release(tmp_path / "released", seed=1)
    before = read_model(released)
    with pytest.raises(InputError, match="model: not evaluated yet"):
        put_in_place(str(folder), str(released))
    assert read_model(released) == before


@pytest.fixture
def clone(model_folder, tmp_path):
    """As much of a clone as the target needs: training and evaluation leave in no time what they leave in hours."""
    home = tmp_path / "clone"
    tools = home / ".venv" / "bin"
    tools.mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, home)
    real = Path(sys.executable).parent
    results = write(tmp_path / "results.jsonl", a_result(model_folder))
    script(
        tools / "pilotfish",
        'echo "$@" >> calls',
        f'case "$1" in train) mkdir -p runs/default && cp -R {model_folder} runs/default/model ;;',
        f'evaluate) cat {results}; test ! -e broken ;; card) exec {real}/pilotfish "$@" ;; esac',
    )
    script(tools / "python", f'exec {real}/python "$@"')
    (home / ".venv" / ".installed").touch()
    release(home / "models" / "released" / "default", seed=1)
    return home


def script(path: Path, *lines: str) -> None:
    path.write_text("\n".join(("#!/bin/sh", *lines)) + "\n")
    path.chmod(0o755)


def make(clone: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "train-default"], cwd=clone, capture_output=True, text=True, check=False)


@pytest.mark.timeout(400)  # it starts Python twice, once with torch
def test_the_target_trains_evaluates_and_releases_the_folder_as_a_whole(clone):
    done = make(clone)
    assert done.returncode == 0, done.stderr
    calls = [line.split()[0] for line in (clone / "calls").read_text().splitlines()]
    assert calls == ["train", "evaluate", "card"]
    released, trained = clone / "models" / "released" / "default", clone / "runs" / "default" / "model"
    assert [path.name for path in released.parent.iterdir()] == ["default"]
    assert {path.name: path.read_bytes() for path in released.iterdir()} == {
        path.name: path.read_bytes() for path in trained.iterdir()
    }
    assert [row.scenario for row in read_manifest(released).evaluation] == ["bursts"]
    assert (clone / "runs" / "default" / "results.jsonl").is_file()


def test_where_the_evaluation_fails_the_released_model_stays(clone):
    released = clone / "models" / "released" / "default"
    before = read_model(released)
    (clone / "broken").touch()
    assert make(clone).returncode != 0
    assert read_model(released) == before
