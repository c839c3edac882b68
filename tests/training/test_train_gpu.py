"""The search for the GPU model's weights: what moves, that it gets better, and that a seed repeats it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from agent.errors import InputError
from agent.features import NODE_COLUMN, NODE_FEATURES, POD_FEATURES, Encoding, encode
from envs.openb_policy import as_seen, views
from envs.packing import empty_world
from envs.workloads.openb import OpenbNodes, OpenbPods
from models.gpu_network import GATES
from models.manifest import read_model
from models.onnx_weights import gpu_weights
from training import release_gpu
from training.contestants import GPU_FOLDER
from training.gpu_config import CONFIG, GpuConfig, read_config
from training.gpu_problems import OpenbLists
from training.train_gpu import (
    FIXED,
    SHAPE,
    Generation,
    WeightedScorer,
    first_weights,
    moving,
    network,
    train,
    with_linear,
)


@pytest.fixture
def lists() -> OpenbLists:
    rng = np.random.default_rng(0)
    count = 12
    nodes = OpenbNodes(
        tuple(f"node-{node}" for node in range(count)),
        rng.choice([32_000.0, 96_000.0], count),
        np.full(count, 400_000.0),
        rng.choice([2.0, 8.0], count),
        np.full(count, "T4"),
    )
    return OpenbLists(nodes, {name: some_pods(rng, 120) for name in ("one", "two")})


def some_pods(rng: np.random.Generator, count: int) -> OpenbPods:
    gpus = rng.choice([0.0, 1.0, 2.0], count, p=[0.2, 0.7, 0.1])
    milli = np.where(gpus == 1, rng.choice([300.0, 500.0, 1000.0], count), np.where(gpus > 1, 1000.0, 0.0))
    nothing, unknown = np.full(count, ""), np.full(count, np.nan)
    cpu, memory = rng.integers(2, 14, count) * 1000.0, rng.integers(1, 30, count) * 1000.0
    names = tuple(f"pod-{pod}" for pod in range(count))
    return OpenbPods(names, cpu, memory, gpus, milli, nothing, nothing, unknown, unknown, unknown)


def small_config(**changes: object) -> GpuConfig:
    config = read_config(CONFIG)
    phase = config.phases[0].model_copy(update={"generations": 3, "problems": 2, "episodes": 0})
    plain = {
        "lists": ("one", "two"),
        "phases": (phase,),
        "population": 8,
        "elite": 3,
        "pods": 150,
        "node_share": 0.9,
        "from_linear": (),
    }
    return config.model_copy(update=plain | changes)


def trained(config: GpuConfig, lists: OpenbLists) -> tuple[np.ndarray, list[Generation]]:
    told: list[Generation] = []
    return train(config, lists, told.append).weights, told


def test_one_seed_gives_the_same_weights_and_another_gives_others(lists: OpenbLists) -> None:
    weights, told = trained(small_config(), lists)
    again, _ = trained(small_config(), lists)
    other, _ = trained(small_config(seed=2), lists)
    assert len(told) == 3
    np.testing.assert_array_equal(weights, again)
    assert not np.array_equal(weights, other)


def test_weights_that_no_phase_names_stay_as_they_were(lists: OpenbLists) -> None:
    config = small_config()
    weights, _ = trained(config, lists)
    fixed = moving(config, config.phases[0]) == FIXED
    np.testing.assert_array_equal(weights[fixed], first_weights(config)[fixed])
    assert (weights != first_weights(config)).any()


def test_cost_features_have_one_weight_for_all_kinds_of_pods() -> None:
    config = read_config(CONFIG)
    places = moving(config, config.phases[1])
    price = NODE_COLUMN["price"]
    slope = GATES.index("share x its size")
    kinds = [gate for gate in range(len(GATES)) if gate != slope]
    assert len(set(places[0, kinds, price])) == 1
    assert places[0, 0, price] != places[1, 0, price]
    assert places[0, slope, price] == FIXED


def test_scorer_with_weights_answers_like_the_network() -> None:
    rng = np.random.default_rng(1)
    weights = rng.normal(size=SHAPE)
    nodes, pod = rng.random((3, 7, len(NODE_FEATURES))), rng.random((3, len(POD_FEATURES)))
    encoding = Encoding(nodes.astype(np.float32), pod.astype(np.float32))
    mask = np.ones((3, 7), dtype=np.bool_)
    with torch.no_grad():
        wanted = network(weights)(*map(torch.from_numpy, (encoding.nodes, encoding.pod, mask))).numpy()
    np.testing.assert_allclose(WeightedScorer(weights).rate(encoding, mask), wanted, rtol=1e-4, atol=1e-4)


def test_problems_are_mixed_from_the_lists_and_repeat_with_their_seed(lists: OpenbLists) -> None:
    first, again = (lists.mixed(80, 0.5, np.random.default_rng(4)) for _ in range(2))
    assert len(first.nodes.gpus) == 6
    assert len(first.kind_of_pod) == 80
    np.testing.assert_array_equal(first.kind_of_pod, again.kind_of_pod)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [("wings: 2", "wings"), ("elite: 1", "elite"), ("seed: 1000000", "seed")],
)
def test_configuration_that_makes_no_sense_is_refused_in_one_line(tmp_path: Path, line: str, complaint: str) -> None:
    key = line.split(":")[0]
    kept = [each for each in CONFIG.read_text(encoding="utf-8").splitlines() if not each.startswith(f"{key}:")]
    path = tmp_path / "gpu.yaml"
    path.write_text("\n".join([*kept, line]), encoding="utf-8")
    with pytest.raises(InputError, match=complaint):
        read_config(path)


def test_weight_for_a_feature_that_kept_scores_cannot_follow_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "gpu.yaml"
    path.write_text(CONFIG.read_text(encoding="utf-8").replace("- price", "- size"), encoding="utf-8")
    with pytest.raises(InputError, match="size"):
        read_config(path)


def test_the_linear_scorer_gives_its_weights_to_features_that_say_nothing_about_packing() -> None:
    config = read_config(CONFIG)
    own = np.arange(1.0, len(NODE_FEATURES) + 1.0)
    before = first_weights(config)
    after = with_linear(before, own, config.from_linear)
    taken = [NODE_COLUMN[name] for name in config.from_linear]
    kinds = [gate for gate in range(len(GATES)) if gate != GATES.index("share x its size")]
    for gate in kinds:
        np.testing.assert_array_equal(after[0, gate, taken], own[taken])
    after[0][:, taken] = before[0][:, taken]
    np.testing.assert_array_equal(after, before)
    assert not set(config.from_linear) & set(config.columns.packing)


def test_those_features_are_zero_on_every_node_of_the_packing_world(lists: OpenbLists) -> None:
    problem = lists.problem("one")
    world = empty_world(problem.nodes, problem.kinds)
    state, demand, candidates = as_seen(problem.nodes, world, views(problem.nodes, world)[0], 0)
    rows = encode(state, demand, candidates).nodes[candidates]
    taken = [NODE_COLUMN[name] for name in read_config(CONFIG).from_linear]
    assert rows.any()
    assert not rows[:, taken].any()


def test_a_search_that_starts_from_a_model_goes_on_with_its_weights(
    lists: OpenbLists, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "gpu.yaml"
    config.write_text(yaml.safe_dump(small_config(beside=500).model_dump(mode="json")), encoding="utf-8")
    asked = []

    def found(
        weights: np.ndarray, names: tuple[str, ...], decisions: int, told: Callable[[Generation], None]
    ) -> np.ndarray:
        told(Generation("beside", 0, 1.0, math.nan, 1.0))
        asked.append(decisions)
        return weights + 1.0

    monkeypatch.setattr(OpenbLists, "read", lambda folder, names: lists)
    monkeypatch.setattr(release_gpu, "openb_folder", lambda traces: traces)
    monkeypatch.setattr(release_gpu, "search_beside", found)
    monkeypatch.setattr(release_gpu, "RANGE_EPISODES", 1)
    release_gpu.run(tmp_path, config, tmp_path / "model", as_json=True, start=GPU_FOLDER)
    (before, old), (after, new) = read_model(GPU_FOLDER), read_model(tmp_path / "model")
    np.testing.assert_allclose(gpu_weights(new), gpu_weights(old) + 1.0, rtol=1e-6)
    assert asked == [500]
    assert after.training.decisions == before.training.decisions + 500
    assert after.training.minutes >= before.training.minutes
    told = json.loads(capsys.readouterr().out.splitlines()[0], parse_constant=pytest.fail)
    assert told == {"phase": "beside", "number": 0, "objective": 1.0, "cost_ratio": 1.0}
