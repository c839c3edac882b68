import json
import shutil

import pytest

from agent.errors import InputError
from agent.features import SCHEMA_VERSION
from models.manifest import (
    MANIFEST_FILE,
    MODEL_FILE,
    WORLD,
    FeatureRange,
    read_manifest,
    read_model,
    same_world,
    write_manifest,
)

FACTS = {"scenario_digest": "5ce9a710", "generator_version": 3, "weights_digest": "0ddba11"}


@pytest.fixture
def folder(model_folder, tmp_path):
    return shutil.copytree(model_folder, tmp_path / "model")


def changed(folder, **values):
    path = folder / MANIFEST_FILE
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | values))


def refusal(read, folder) -> str:
    with pytest.raises(InputError) as why:
        read(folder)
    assert "\n" not in str(why.value)
    return str(why.value)


def test_what_is_written_is_read_again(folder):
    manifest = read_manifest(folder)
    write_manifest(manifest, folder)
    assert read_manifest(folder) == manifest
    assert sorted(path.name for path in folder.iterdir()) == ["MODEL_CARD.md", "manifest.json", "policy.onnx"]


def test_the_model_comes_as_the_bytes_that_the_manifest_names(folder):
    manifest, model = read_model(folder)
    assert model == (folder / MODEL_FILE).read_bytes()
    assert manifest.label == f"default@{manifest.sha256[:12]}"


def test_a_changed_byte_of_the_model_is_refused(folder):
    model = bytearray((folder / MODEL_FILE).read_bytes())
    model[len(model) // 2] ^= 1
    (folder / MODEL_FILE).write_bytes(model)
    said = refusal(read_model, folder)
    assert "policy.onnx: sha256 is" in said
    assert "copy the whole folder again" in said


def test_a_model_cut_short_is_refused(folder):
    model = (folder / MODEL_FILE).read_bytes()
    (folder / MODEL_FILE).write_bytes(model[:-1])
    assert "cut short or was changed" in refusal(read_model, folder)


@pytest.mark.parametrize("version", [0, 99, str(SCHEMA_VERSION), None])
def test_a_model_of_another_schema_is_refused_whatever_else_is_in_it(folder, version):
    changed(folder, schema_version=version, a_key_of_the_future=1)
    said = refusal(read_manifest, folder)
    assert f"schema_version is {version!r}, this Pilotfish reads {SCHEMA_VERSION}" in said
    assert "train and export again" in said


def test_a_manifest_cut_short_is_refused(folder):
    text = (folder / MANIFEST_FILE).read_text()
    (folder / MANIFEST_FILE).write_text(text[: len(text) // 2])
    said = refusal(read_manifest, folder)
    assert "manifest.json: not JSON" in said
    assert "copy it again" in said


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"surprise": 1}, "surprise: Extra inputs"),
        ({"sha256": "abc"}, "sha256: String should match"),
        ({"kind": "tpu"}, "kind: Input should be 'default' or 'gpu'"),
        ({"node_features": {}}, "node_features: Value error, features differ from the schema's: app_ratio"),
        ({"pod_features": {}}, "pod_features: Value error"),
        ({"training": {}}, "training.config_digest: Field required"),
    ],
)
def test_a_wrong_value_is_named(folder, values, said):
    changed(folder, **values)
    answer = refusal(read_manifest, folder)
    assert said in answer
    assert "manifest.json" in answer


@pytest.mark.parametrize("name", [MANIFEST_FILE, MODEL_FILE])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    assert f"{name}: No such file" in refusal(read_model, folder)


def test_a_missing_folder_is_named(tmp_path):
    assert "gone: no such model folder" in refusal(read_model, tmp_path / "gone")


def test_a_manifest_that_is_no_object_is_refused(folder):
    (folder / MANIFEST_FILE).write_text("[]")
    assert "must be a JSON object" in refusal(read_manifest, folder)


def test_a_row_of_results_older_than_its_world_s_keys_is_read(folder):
    row = {"scenario": "bursts", "episodes": 2, "seed": 0, "cost_usd_per_hour": 8.0, "best_other": "linear"}
    row |= {"best_other_usd_per_hour": 10.0, "difference_percent": -20.0, "ci95_percent": [-22.0, -18.0]}
    changed(folder, evaluation=[row, row | FACTS])
    old, new = read_manifest(folder).evaluation
    assert old.generator_version is None
    assert not same_world(old.model_dump(), FACTS)
    assert same_world(new.model_dump(), FACTS)


@pytest.mark.parametrize("key", WORLD)
def test_another_scenario_generator_or_weights_is_another_world(key):
    assert same_world(FACTS | {"seed": 7}, FACTS)
    assert not same_world(FACTS | {key: "other"}, FACTS)
    assert not same_world({name: value for name, value in FACTS.items() if name != key}, FACTS)


@pytest.mark.parametrize("values", [(1, 0, 2, 3), (0, 2, 1, 3), (0, 1, 3, 2), (0, 1, 2, float("nan"))])
def test_a_range_out_of_order_is_refused(values):
    with pytest.raises(ValueError, match=r"must not fall|finite number"):
        FeatureRange(**dict(zip(("min", "low", "high", "max"), values, strict=True)))


def test_a_write_that_fails_leaves_the_old_manifest_and_nothing_else(folder, monkeypatch):
    before = read_manifest(folder)
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_manifest(before.model_copy(update={"kind": "gpu"}), folder)
    assert read_manifest(folder) == before
    assert len(list(folder.iterdir())) == 3
