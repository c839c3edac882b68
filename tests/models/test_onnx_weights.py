from __future__ import annotations

import pytest
import torch

from agent.errors import InputError
from models.onnx_weights import network_of
from tests.tiny_model import release, tiny_scorer
from training.contestants import GPU_FOLDER


def test_the_weights_come_back_as_they_were_exported(tmp_path) -> None:
    wanted = tiny_scorer(seed=3).state_dict()
    found = network_of(release(tmp_path / "model", seed=3)).state_dict()
    assert found.keys() == wanted.keys()
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name], rtol=0, atol=0)


def test_another_kind_of_network_is_refused() -> None:
    with pytest.raises(InputError, match="not the network of"):
        network_of(GPU_FOLDER)
