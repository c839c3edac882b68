import shutil

import pytest

from agent.features import SCHEMA_VERSION
from serving.settings import ModelSettings, Settings
from tests.tiny_model import release


@pytest.fixture
def folder(model_folder, tmp_path):
    return shutil.copytree(model_folder, tmp_path / "model")


@pytest.fixture
def settings(folder):
    return Settings(model=ModelSettings(folder=str(folder), gpu_folder="none"))


def test_the_manifest_of_the_model_in_use_is_shown(client):
    reply = client.get("/v1/model").json()
    (model,) = reply["models"]
    assert model["label"] == f"default@{model['sha256'][:12]}"
    assert model["schema_version"] == reply["schema_version"] == SCHEMA_VERSION
    assert model["training"]["decisions"] == 1000
    assert "node_features" not in model
    assert reply["problems"] == []


def test_reload_answers_with_the_new_model(client, folder):
    before = client.get("/v1/model").json()["models"][0]["label"]
    release(folder, seed=3)
    assert client.get("/v1/model").json()["models"][0]["label"] == before
    reply = client.post("/v1/model/reload")
    assert reply.status_code == 200
    assert reply.json()["models"][0]["label"] != before
    assert client.get("/v1/model").json() == reply.json()


def test_reload_of_a_bad_model_is_409_and_the_old_one_stays_with_the_problem_beside_it(client, folder):
    before = client.get("/v1/model").json()["models"]
    (folder / "policy.onnx").write_bytes(b"not a model")
    reply = client.post("/v1/model/reload")
    assert reply.status_code == 409
    assert "the models stay as they were" in reply.json()["error"]
    after = client.get("/v1/model").json()
    assert after["models"] == before
    assert "policy.onnx" in after["problems"][0]


def test_a_good_model_after_a_bad_one_clears_the_problem(client, folder, model_folder):
    (folder / "policy.onnx").write_bytes(b"not a model")
    client.post("/v1/model/reload")
    shutil.copy(model_folder / "policy.onnx", folder / "policy.onnx")
    assert client.post("/v1/model/reload").json()["problems"] == []
