import pytest

from models.manifest import FeatureRange, read_manifest
from tests.tiny_model import release
from training.model_card import model_card


@pytest.fixture
def manifest(model_folder):
    return read_manifest(model_folder)


def test_the_card_beside_a_model_is_made_from_its_manifest(manifest, model_folder):
    assert (model_folder / "MODEL_CARD.md").read_text() == model_card(manifest)


def test_it_names_the_exact_model_and_where_it_comes_from(manifest):
    card = model_card(manifest)
    for fact in (manifest.sha256, "2026-11-16", "`microservices` (abc123)", "c0ffee", "1,000", "torch "):
        assert fact in card


def test_a_model_without_results_says_so(manifest):
    assert "Not evaluated yet" in model_card(manifest)


def test_features_that_never_varied_are_a_limit(tmp_path):
    still = FeatureRange(min=0.0, low=0.0, high=0.0, max=0.0)
    folder = release(tmp_path / "m", kind="gpu", nic_unknown=still, queue=still)
    card = model_card(read_manifest(folder))
    assert "knows nothing of them: `nic_unknown`, `queue`." in card
    assert "pod that asks for GPUs" in card
