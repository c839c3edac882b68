"""Training as people use it: it learns, it can be interrupted, and one seed is one result."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from agent.errors import InputError
from agent.features import SCHEMA_VERSION
from models.manifest import MODEL_FILE, read_manifest
from models.onnx_scorer import OnnxScorer
from training import train as training
from training.checkpoint import load_checkpoint, save_checkpoint
from training.config import TrainConfig, load_config, parse_config
from training.config_docs import with_fields
from training.group_episodes import play_episodes
from training.live_config import LiveConfig
from training.ppo import EpisodicPPO, TrainingWorld, make_stack
from training.train import BEST, CHECKPOINT, overridden, train
from training.watching import Metrics

TINY_WORLD = {"scenario": "deployments", "groups": 2}
TINY = {
    "worlds": [TINY_WORLD],
    "decisions": 5_000,
    "threads": 1,
    "network": {"hidden": 8, "prior": "none"},
    "credit": {"group_size": 4},
    "learning": {"batch_size": 256},
    "watching": {"every": 2, "episodes": 2, "baselines": ["least_allocated"]},
}


def tiny(**changes: object) -> TrainConfig:
    return parse_config(TINY | changes, "test")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run")
    train(tiny(), out)
    return out


def weights(out: Path) -> dict[str, torch.Tensor]:
    return load_checkpoint(out / CHECKPOINT).policy


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=0, atol=0)


def test_training_may_give_its_worlds_other_nics_than_they_have() -> None:
    (own,), (short,) = tiny().scenarios(), tiny(network_peak=3.0).scenarios()
    assert (own.loads.network_peak, short.loads.network_peak) == (0.8, 3.0)
    assert own.digest() == short.model_copy(update={"loads": own.loads}).digest()  # nothing else differs


def test_training_may_vary_the_loads_of_its_worlds() -> None:
    (own,), (varied,) = tiny().scenarios(), tiny(varied_loads=0.5).scenarios()
    assert (own.loads.varied, varied.loads.varied) == (0.0, 0.5)
    assert tiny().digest() != tiny(varied_loads=0.5).digest()
    assert own.digest() == varied.model_copy(update={"loads": own.loads}).digest()


def test_heads_may_be_searched_for_with_other_loads_than_those_of_learning() -> None:
    config = tiny(network_peak=3.0, worlds=[{**TINY_WORLD, "head_loads": {"varied_loads": 0.5}}])
    (learned,), (searched,) = config.scenarios(), config.head_scenarios()
    assert (learned.loads.network_peak, learned.loads.varied) == (3.0, 0.0)
    assert (searched.loads.network_peak, searched.loads.varied) == (0.8, 0.5)
    assert tiny(network_peak=3.0).head_scenarios() == tiny(network_peak=3.0).scenarios()
    assert config.digest() != tiny(network_peak=3.0).digest()


def test_the_search_for_a_head_may_start_from_that_of_another_world() -> None:
    first, second = (
        {**TINY_WORLD, "own_head": 9},
        {"scenario": "edge", "own_head": 9, "head_from": TINY_WORLD["scenario"]},
    )
    config = tiny(worlds=[first, second])
    assert config.heads_from() == [None, config.scenarios()[0].name]
    assert overridden(config, ["edge"], None, None).heads_from() == [None]
    for worlds in ([second], [TINY_WORLD, second], [first, {**second, "head_from": "edge"}]):
        with pytest.raises(InputError, match="no head of its own that is searched for first"):
            tiny(worlds=worlds)


def test_the_ranges_are_those_of_learning_and_of_the_search(tmp_path: Path) -> None:
    plain = read_manifest(train(tiny(), tmp_path / "plain"))
    wider = read_manifest(train(tiny(worlds=[{**TINY_WORLD, "head_loads": {"varied_loads": 1.0}}]), tmp_path / "wider"))
    assert wider.node_features["cpu_used_ratio"].min < plain.node_features["cpu_used_ratio"].min
    for name, seen in plain.node_features.items():
        assert wider.node_features[name].min <= seen.min
        assert wider.node_features[name].max >= seen.max


def test_one_seed_gives_the_same_weights_twice(finished: Path, tmp_path: Path) -> None:
    train(tiny(), tmp_path)
    assert_same(weights(finished), weights(tmp_path))


def test_another_seed_gives_other_weights(finished: Path, tmp_path: Path) -> None:
    train(tiny(seed=2), tmp_path)
    assert not torch.equal(weights(finished)["scorer.score.weight"], weights(tmp_path)["scorer.score.weight"])


def test_a_run_that_was_interrupted_goes_on_as_if_it_had_not(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    updates = load_checkpoint(finished / CHECKPOINT).updates
    assert updates >= 3
    learn = EpisodicPPO.train

    def interrupted(self: EpisodicPPO) -> None:
        if self.updates == 2:
            raise KeyboardInterrupt
        learn(self)

    with monkeypatch.context() as patched:
        patched.setattr(EpisodicPPO, "train", interrupted)
        with pytest.raises(InputError, match="--resume"):
            train(tiny(), tmp_path)
    assert load_checkpoint(tmp_path / CHECKPOINT).updates == 1
    train(tiny(), tmp_path, resume=True)
    assert load_checkpoint(tmp_path / CHECKPOINT).updates == updates
    # The schedule of the learning rate is a matter of the decisions made so far, so it goes on too.
    assert_same(weights(finished), weights(tmp_path))


def test_a_run_that_is_stopped_while_heads_are_searched_goes_on_to_the_same_model(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(training, "release", interrupted)
        with pytest.raises(InputError, match="--resume"):
            train(tiny(), tmp_path)
    assert not (tmp_path / "model").exists()
    train(tiny(), tmp_path, resume=True)
    assert (tmp_path / "model" / MODEL_FILE).read_bytes() == (finished / "model" / MODEL_FILE).read_bytes()


def test_it_leaves_a_model_that_the_sidecar_loads(finished: Path) -> None:
    scorer = OnnxScorer.load(finished / "model")
    assert scorer.manifest.training.scenarios.keys() == {"deployments"}
    assert (finished / BEST).is_file()
    assert list((finished / "tensorboard").glob("events*"))


def test_minutes_end_a_run_early(tmp_path: Path) -> None:
    train(tiny(decisions=10**9), tmp_path, minutes=1e-6)
    assert load_checkpoint(tmp_path / CHECKPOINT).decisions < 10_000


@pytest.mark.parametrize("interrupted_at", [None, 2])
def test_patience_ends_a_run_that_gets_no_better_whether_it_is_interrupted_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted_at: int | None
) -> None:
    def learn_nothing(self: EpisodicPPO) -> None:
        if self.updates == interrupted_at:
            raise KeyboardInterrupt

    watching = {"every": 1, "episodes": 2, "baselines": ["least_allocated"], "patience": 3}
    config = tiny(decisions=10**9, watching=watching)
    monkeypatch.setattr(EpisodicPPO, "train", learn_nothing)
    if interrupted_at is not None:
        with pytest.raises(InputError, match="--resume"):
            train(config, tmp_path)
        monkeypatch.setattr(EpisodicPPO, "train", lambda self: None)
    train(config, tmp_path, resume=interrupted_at is not None)
    kept = load_checkpoint(tmp_path / CHECKPOINT)
    assert (kept.updates, kept.since_best) == (3, 3)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_policy_learns_to_beat_the_heuristics_from_nothing(tmp_path: Path) -> None:
    """The smoke of two minutes: no rule to start from, and soon ahead of what is there."""
    looks: list[Metrics] = []
    config = parse_config(
        {
            "worlds": [{"scenario": "microservices", "groups": 6}],
            "decisions": 400_000,
            "threads": 1,
            "network": {"prior": "none"},
            "watching": {"every": 4, "episodes": 16},
        },
        "test",
    )
    train(config, tmp_path, minutes=1.5, report=looks.append)
    assert looks[0].relative_cost > 1.0
    assert min(look.relative_cost for look in looks) < 0.95


def test_what_is_not_a_number_stops_training_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: EpisodicPPO, *_: object) -> object:
        self.learner.scorer.score.weight.data.fill_(float("nan"))
        return play_episodes(self.act, make_stack(self.worlds[0], 1, range(1)), 2, True, 1)

    monkeypatch.setattr(EpisodicPPO, "_played", broken)
    with pytest.raises(InputError, match="not finite"):
        train(tiny(), tmp_path)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({**TINY, "wolrds": []}, "wolrds"),
        ({**TINY, "worlds": []}, "worlds"),
        ({**TINY, "learning": {"epochs": 0}}, "learning.epochs"),
        ({**TINY, "watching": {"baselines": ["bset_fit"]}}, "choose from"),
        ({**TINY, "network": {"prior": "mxi"}}, "network.prior: .*'mxi': choose from none, mix, "),
        ({**TINY, "seed": 1_000_000}, "seed"),
    ],
)
def test_a_bad_configuration_is_one_line_that_names_the_field(content: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words) as told:
        parse_config(content, "test.yaml")
    assert "\n" not in str(told.value)


def test_unknown_configuration_names_the_choices() -> None:
    with pytest.raises(InputError, match="default"):
        load_config("defualt")


def test_the_command_line_overrides_the_configuration() -> None:
    config = overridden(load_config("default"), ["edge"], 123, 9)
    assert [world.scenario for world in config.worlds] == ["edge"]
    assert (config.decisions, config.seed) == (123, 9)


def test_scenarios_are_cut_to_the_largest_size_of_training() -> None:
    for scenario in load_config("default").scenarios():
        assert scenario.nodes.count.high <= 100


def test_checkpoint_of_another_schema_is_refused(finished: Path, tmp_path: Path) -> None:
    content = torch.load(finished / CHECKPOINT, weights_only=True) | {"schema_version": SCHEMA_VERSION + 1}
    torch.save(content, tmp_path / "other.pt")
    with pytest.raises(InputError, match=f"schema {SCHEMA_VERSION + 1}"):
        load_checkpoint(tmp_path / "other.pt")


def test_truncated_checkpoint_is_refused(finished: Path, tmp_path: Path) -> None:
    whole = (finished / CHECKPOINT).read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="cut short"):
        load_checkpoint(tmp_path / "cut.pt")


def test_checkpoint_round_trip_gives_identical_scores(finished: Path, tmp_path: Path) -> None:
    kept = load_checkpoint(finished / BEST)
    save_checkpoint(kept, tmp_path / "again.pt")
    state = torch.rand(2, 5, kept.network().from_node.in_features), torch.rand(2, kept.network().from_pod.in_features)
    mask = torch.ones(2, 5, dtype=torch.bool)
    with torch.no_grad():
        again = load_checkpoint(tmp_path / "again.pt").network()(*state, mask)
        assert torch.equal(kept.network()(*state, mask), again)


def test_json_says_one_object_for_each_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "load_config", lambda name: tiny())
    training.run(
        config="tiny", scenarios=[], traces=None, recording=None, steps=None, minutes=None, seed=None, out=tmp_path,
        resume=False, as_json=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["decisions"] == 0
    assert {"relative_cost", "by_scenario", "minutes"} <= lines[-1].keys()


def test_members_of_a_group_meet_the_same_pods() -> None:
    config = tiny()
    world = TrainingWorld(config.scenarios()[0], 2, 1.0)
    model = EpisodicPPO([world], config, None)
    made = play_episodes(model.act, make_stack(world, 1, range(2)), 4, True, 1)
    for tape in (0, 1):
        clusters = np.unique(made.cluster[made.tape == tape])
        pods = [made.pod_index[made.cluster == cluster] for cluster in clusters]
        assert len(clusters) == 4
        for others in pods[1:]:
            np.testing.assert_array_equal(others, pods[0])
    assert made.mask[np.arange(len(made.action)), made.action].all()


def test_the_page_about_training_names_every_field_with_its_default() -> None:
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    assert with_fields(page) == page
    assert "credit.explored" in page


def test_the_page_about_live_training_does_so_too() -> None:
    page = (Path(__file__).parents[2] / "docs" / "live_training.md").read_text(encoding="utf-8")
    assert with_fields(page, LiveConfig) == page
    assert "safety.certainty" in page
