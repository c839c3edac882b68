import json
import shutil

import pytest

from agent.errors import InputError
from models.manifest import read_model
from training.card import run


@pytest.fixture
def folder(model_folder, tmp_path):
    return shutil.copytree(model_folder, tmp_path / "model")


def a_result(folder, **changes):
    """A line as `pilotfish evaluate FOLDER --json` writes it, as far as a manifest takes it over."""
    difference = {"mean": -2.0, "ci95": 0.2, "percent": -20.0, "ci95_percent": 2.0}
    return {
        "scenario": "bursts",
        "seed": 1_000_000,
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
