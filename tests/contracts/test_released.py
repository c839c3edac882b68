"""The models that are shipped can be served, fit the card beside them, and are small and fast enough to be first."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pytest

from agent.features import encode
from envs.dynamics.world import World
from envs.workloads.scenario import load_scenario, scenario_names
from envs.workloads.synthetic import GENERATOR_VERSION, make_tape
from models.manifest import CARD_FILE, MANIFEST_FILE, MODEL_FILE, RELEASED, read_manifest, read_model
from models.onnx_scorer import OnnxScorer
from training.config import load_config
from training.model_card import model_card, of_present_world

FOLDERS = sorted(path.parent for path in RELEASED.glob(f"*/{MANIFEST_FILE}"))
WORLDS = {"default": "microservices", "gpu": "gpu"}


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def folder(request) -> Path:
    return request.param


def test_the_manifest_fits_the_model_and_its_place(folder):
    manifest, model = read_model(folder)
    assert manifest.kind == folder.name
    assert len(model) < 1_000_000
    assert manifest.created >= date(2026, 11, 1)
    assert {path.name for path in folder.iterdir()} >= {MODEL_FILE, MANIFEST_FILE, CARD_FILE}


def test_the_card_is_made_from_the_manifest(folder):
    card = (folder / CARD_FILE).read_text(encoding="utf-8")
    assert card == model_card(read_model(folder)[0]), "pilotfish card makes it again"
    assert "Not evaluated yet" not in card


def test_the_default_model_is_of_the_present_configuration_generator_and_worlds():
    """What changes any of them makes `make train-default` necessary, or at least its evaluation and card."""
    manifest = read_manifest(RELEASED / "default")
    assert manifest.training.config_digest == load_config("default").digest()
    assert manifest.training.generator_version == GENERATOR_VERSION
    assert {row.scenario for row in manifest.evaluation} == set(scenario_names())
    assert [row.scenario for row in manifest.evaluation if not of_present_world(row)] == []


def test_it_answers_nearly_every_pod_of_a_simulated_cluster(folder):
    """A held-out episode, decided by the model itself: the guard may stop it now and then, not as a rule."""
    scorer = OnnxScorer.load(folder)
    world = World(make_tape(load_scenario(WORLDS[folder.name]), 1_000_000))
    silent = 0
    for _ in range(100):
        state, demand, candidates = world.state(), world.demand(), world.candidates()
        encoding = encode(state, demand, candidates)
        silent += bool(scorer.out_of_range(encoding, candidates))
        world.step(int(np.argmax(np.where(candidates, scorer.rate(encoding, candidates), -np.inf))))
    assert silent <= 10
