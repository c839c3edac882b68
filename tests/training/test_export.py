from dataclasses import replace

import pytest
import torch

from agent.errors import InputError
from models.manifest import EvaluationRow, read_manifest, read_model
from models.network import NodeScorer
from tests.tiny_model import facts, tiny_scorer
from training.export import export, to_onnx

FILES = ["MODEL_CARD.md", "manifest.json", "policy.onnx"]
ROW = EvaluationRow(
    scenario="bursts",
    episodes=200,
    seed=1_000_000,
    cost_usd_per_hour=8.0,
    best_other="linear_mix",
    best_other_usd_per_hour=10.0,
    difference_percent=-20.0,
    ci95_percent=(-22.0, -18.0),
)


class FixedCount(NodeScorer):
    """Right for the three nodes it is traced with only: what a shape read as a Python number does to an export."""

    def forward(self, nodes, pod, mask):
        return super().forward(nodes, pod, mask) + len(nodes[0])


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_of_model_manifest_and_card_is_written(tmp_path):
    manifest = export(tiny_scorer(), tmp_path / "out" / "default", facts(), checked_states=20)
    folder = tmp_path / "out" / "default"
    assert names(folder) == FILES
    assert names(folder.parent) == ["default"]
    assert read_model(folder)[0] == manifest
    assert manifest.versions["torch"].split("+")[0] == torch.__version__.split("+")[0]


def test_the_same_weights_give_the_same_bytes_without_a_path_of_this_machine():
    model = to_onnx(tiny_scorer(3))
    assert model == to_onnx(tiny_scorer(3)) != to_onnx(tiny_scorer(4))
    assert b".py" not in model
    assert len(model) < 20_000


def test_exporting_leaves_the_network_as_it_was(tmp_path):
    scorer = tiny_scorer()
    scorer.train()
    export(scorer, tmp_path / "model", facts(), checked_states=1)
    assert scorer.training


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_model_that_answers_unlike_the_network_is_not_written(tmp_path):
    with pytest.raises(InputError, match=r"differs from the network by .* nothing is written"):
        export(FixedCount(), tmp_path / "default", facts())
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_was_there_survives_a_failed_export_and_is_replaced_by_a_good_one(tmp_path, monkeypatch):
    folder = tmp_path / "default"
    first = export(tiny_scorer(1), folder, facts(), checked_states=1)
    with monkeypatch.context() as broken:
        broken.setattr("training.export.check_equal", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            export(tiny_scorer(2), folder, facts())
    assert (read_manifest(folder), names(tmp_path)) == (first, ["default"])
    second = export(tiny_scorer(2), folder, facts(), checked_states=1)
    assert read_model(folder)[0] == second != first
    assert names(tmp_path) == ["default"]


def test_a_folder_with_other_things_in_it_is_not_replaced(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match=r"holds thesis\.txt, which is no part of a model"):
        export(tiny_scorer(), tmp_path, facts())
    with pytest.raises(InputError, match="is a file"):
        export(tiny_scorer(), tmp_path / "thesis.txt", facts())
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_results_known_at_export_are_in_the_card(tmp_path):
    export(tiny_scorer(), tmp_path / "m", replace(facts(), evaluation=[ROW]), checked_states=1)
    assert "-22.0 to -18.0 %" in (tmp_path / "m" / "MODEL_CARD.md").read_text()
