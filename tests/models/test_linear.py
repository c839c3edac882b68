"""Linear scorers on disk: what is released can be loaded, and what is wrong with a file is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.errors import InputError
from agent.features import NODE_FEATURES, SCHEMA_VERSION
from models.linear import load_linear, vector_names, write_vectors


def written(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_the_released_mix_is_there_and_weighs_something() -> None:
    scorer = load_linear()
    assert scorer.name == "linear_mix"
    assert scorer.weights.shape == (len(NODE_FEATURES),)
    assert abs(scorer.weights).max() > 0


def test_every_released_vector_loads() -> None:
    for name in vector_names():
        load_linear(name)


def test_weights_come_back_by_name(tmp_path: Path) -> None:
    path = tmp_path / "new" / "weights.json"
    write_vectors({"mine": {"weights": {"price": 2.0, "cpu_hot": -1.5}}}, path)
    scorer = load_linear("mine", path)
    by_name = dict(zip(NODE_FEATURES, scorer.weights.tolist(), strict=True))
    assert (by_name.pop("price"), by_name.pop("cpu_hot")) == (2.0, -1.5)
    assert set(by_name.values()) == {0.0}
    assert [file.name for file in path.parent.iterdir()] == ["weights.json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a JSON file"),
        ([1], "not a file of linear scorers"),
        ({"vectors": {}}, "schema_version"),
        ({"schema_version": SCHEMA_VERSION + 1, "vectors": {}}, "update pilotfish"),
        ({"schema_version": 1, "vectors": {"other": {}}}, "no linear scorer mix .* choose from other"),
        ({"schema_version": 1, "vectors": {"mix": {"weights": {"colour": 1.0}}}}, "unknown features colour"),
        ({"schema_version": 1, "vectors": {"mix": {"weights": {"price": "1"}}}}, "finite numbers"),
        ('{"schema_version": 1, "vectors": {"mix": {"weights": {"price": NaN}}}}', "finite numbers"),
    ],
)
def test_a_file_that_is_wrong_is_refused_in_one_line(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_linear(path=written(tmp_path / "weights.json", content))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"weights\.json: No such file"):
        load_linear(path=tmp_path / "weights.json")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "weights.json"
    write_vectors({"mine": {"weights": {"price": 2.0}}}, path)
    with pytest.raises(ValueError, match="JSON"):
        write_vectors({"mine": {"weights": {"price": float("nan")}}}, path)
    assert load_linear("mine", path).weights.max() == 2.0
