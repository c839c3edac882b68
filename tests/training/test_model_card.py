import pytest

from envs.rewards import DIGEST as WEIGHTS_DIGEST
from envs.workloads.scenario import load_scenario
from envs.workloads.synthetic import GENERATOR_VERSION
from models.manifest import EvaluationRow, FeatureRange, read_manifest
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


# --- of which world the results are


def card_with(manifest, **changes):
    """The card of a model that was evaluated in bursts as it is now, but for the changes."""
    row = EvaluationRow(
        **{
            "scenario": "bursts",
            "episodes": 200,
            "seed": 1_000_000,
            "cost_usd_per_hour": 8.0,
            "best_other": "linear",
            "best_other_usd_per_hour": 10.0,
            "difference_percent": -20.0,
            "ci95_percent": (-22.0, -18.0),
            "scenario_digest": load_scenario("bursts").digest(),
            "generator_version": GENERATOR_VERSION,
            "weights_digest": WEIGHTS_DIGEST,
        }
        | changes
    )
    return model_card(manifest.model_copy(update={"evaluation": (row,)}))


WARNING = "**Not of the worlds of this version**"


def test_results_of_the_present_world_need_no_word(manifest):
    card = card_with(manifest)
    assert "| bursts | 200 |" in card
    assert WARNING not in card


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"generator_version": GENERATOR_VERSION - 1}, f"`bursts` (generator {GENERATOR_VERSION - 1}, "),
        ({"scenario_digest": "5ce9a710"}, "scenario 5ce9a710)"),
        ({"weights_digest": "0ddba11"}, "weights 0ddba11, "),
        ({"generator_version": None, "scenario_digest": None, "weights_digest": None}, "`bursts` (not recorded)"),
    ],
)
def test_results_of_another_world_are_named(manifest, change, said):
    (line,) = (line for line in card_with(manifest, **change).splitlines() if line.startswith(WARNING))
    assert said in line
    assert f"generator {GENERATOR_VERSION}, weights {WEIGHTS_DIGEST}" in line


def test_of_a_scenario_of_somebody_s_own_generator_and_weights_count(manifest):
    assert WARNING not in card_with(manifest, scenario="mine", scenario_digest="5ce9a710")
    assert WARNING in card_with(manifest, scenario="mine", generator_version=GENERATOR_VERSION - 1)
