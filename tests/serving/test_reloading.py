"""Settings and models that change while requests go on."""

import shutil
from dataclasses import replace

import pytest

from agent.errors import InputError
from agent.features import SCHEMA_VERSION
from serving.configuration import Configuration, ConfigurationSource
from serving.decide import new_decider
from serving.settings import ModelSettings, Settings
from tests.faulty_model import giving_nan, giving_one_score, taking_long, with_content
from tests.serving.conftest import a_snapshot
from tests.serving.test_metrics import samples
from tests.tiny_model import release

SMALL = {"requirements": {"cpu": "500m"}}
SAID = {
    "NaN": "are not finite",
    "one score": "gave (8, 1) scores, not (8, 8)",
    "slow": "longer than the deadline of 100 ms",
}


@pytest.fixture
def sidecar(client):
    return client.app.state.sidecar


@pytest.fixture
def change(sidecar):
    def reload(**groups):
        settings = sidecar.settings.model_copy(
            update={name: getattr(sidecar.settings, name).model_copy(update=new) for name, new in groups.items()}
        )
        sidecar.live.reload(lambda: Configuration(settings, {}))

    return reload


def test_a_new_deadline_is_in_the_next_reply(client, change):
    change(ladder={"deadline_ms": 42.0})
    assert client.post("/v1/score", json=SMALL).json()["deadline_ms"] == 42.0


def test_a_new_staleness_skips_the_step_and_counts_in_the_metrics(client, change):
    assert client.post("/v1/score", json=SMALL).json()["source"] == "policy"
    change(ladder={"stale_after_s": 1.0})
    assert client.post("/v1/score", json=SMALL).json()["source"] == "least_allocated"
    assert samples(client)["pilotfish_nodes_without_metric", (("group", "network"),)] == 5


def test_breakers_keep_what_they_know_unless_they_were_changed_themselves(decider, change):
    for _ in range(3):
        decider.ladder.steps[0].breaker.failed()
    change(ladder={"deadline_ms": 42.0})
    assert decider.ladder.steps[0].breaker.state == "open"
    change(breaker={"failures_to_open": 9})
    assert decider.ladder.steps[0].breaker.state == "closed"


def test_exploration_can_be_switched_on_live(client, change):
    change(exploration={"share": 1.0})
    assert client.post("/v1/score", json={"requirements": {"uid": "u1"}}).json()["source"] == "exploration"


def test_skips_are_still_counted_after_a_change(client, change):
    change(ladder={"stale_after_s": 1.0})
    client.post("/v1/score", json=SMALL)
    key = ("pilotfish_ladder_step_skipped_total", (("reason", "stale"), ("step", "expected_utilisation")))
    assert samples(client)[key] == 1


def test_other_groups_wait_for_a_restart_and_say_so(client, sidecar, change, caplog):
    change(server={"max_nodes": 1}, ladder={"deadline_ms": 42.0})
    assert sidecar.settings.server.max_nodes == Settings().server.max_nodes > 1
    assert sidecar.settings.ladder.deadline_ms == 42.0
    assert sidecar.live.waiting == ("server.max_nodes",)
    assert "server.max_nodes changed: needs a restart" in caplog.text
    assert client.get("/v1/state").json()["settings"] == {"problem": None, "need_restart": ["server.max_nodes"]}


def test_a_bad_change_keeps_the_old_settings_and_says_so(client, sidecar, caplog):
    before = sidecar.settings

    def refuse():
        raise InputError("settings: pilotfish.yaml: ladder.deadline_ms: not a number")

    sidecar.live.reload(refuse)
    assert sidecar.settings is before
    assert "the settings stay as they were" in caplog.text
    assert "not a number" in client.get("/v1/state").json()["settings"]["problem"]
    assert samples(client)["pilotfish_reloads_total", (("result", "bad"), ("what", "settings"))] == 1
    sidecar.live.reload(ConfigurationSource().read)
    assert client.get("/v1/state").json()["settings"]["problem"] is None


def test_what_a_part_refuses_is_in_force_for_nobody(client, sidecar, change):
    def refuse(settings):
        raise InputError(f"no deadline of {settings.ladder.deadline_ms:g} ms for me")

    applied = []
    sidecar.live.check(refuse)
    sidecar.live.on_change(applied.append)
    change(ladder={"deadline_ms": 42.0})
    assert (applied, sidecar.settings.ladder.deadline_ms) == ([], 100.0)
    assert sidecar.live.problem == "no deadline of 42 ms for me"
    assert samples(client)["pilotfish_reloads_total", (("result", "bad"), ("what", "settings"))] == 1


# --- models


@pytest.fixture
def folder(model_folder, tmp_path):
    return shutil.copytree(model_folder, tmp_path / "model")


@pytest.fixture
def settings(folder):
    return Settings(model=ModelSettings(folder=str(folder), gpu_folder="none"))


def label(decider):
    return decider.policy.labels[0]


def test_another_model_in_the_folder_is_used_from_the_next_request_on(client, sidecar, decider, folder):
    before = client.post("/v1/score", json=SMALL).json()["model"]
    release(folder, seed=1)
    sidecar.models.reload()
    after = client.post("/v1/score", json=SMALL).json()
    assert after["source"] == "policy"
    assert after["model"] == label(decider) != before


@pytest.mark.parametrize(
    "damage",
    ["missing", "cut short", "other bytes", "other schema", "no json", "gone", "NaN", "one score", "slow"],
)
def test_a_bad_model_keeps_the_old_one_and_says_so(client, sidecar, folder, damage, caplog):
    before = client.post("/v1/score", json=SMALL).json()["model"]
    model, manifest = folder / "policy.onnx", folder / "manifest.json"
    match damage:
        case "missing":
            model.unlink()
        case "cut short":
            model.write_bytes(model.read_bytes()[:100])
        case "other bytes":
            model.write_bytes(b"x" * 1000)
        case "other schema":
            manifest.write_text(
                manifest.read_text().replace(f'"schema_version": {SCHEMA_VERSION}', '"schema_version": 99')
            )
        case "no json":
            manifest.write_text("{")
        case "gone":
            shutil.rmtree(folder)
        case "NaN":
            with_content(folder, giving_nan())
        case "one score":
            with_content(folder, giving_one_score())
        case "slow":
            with_content(folder, taking_long(1000, 8))
    policy = sidecar.models.reload()
    assert len(policy.problems) == 1
    assert SAID.get(damage, str(folder)) in policy.problems[0]
    reply = client.post("/v1/score", json=SMALL).json()
    assert (reply["source"], reply["model"]) == ("policy", before)
    assert "the models stay as they were" in caplog.text
    assert client.get("/v1/state").json()["models"]["problems"] == list(policy.problems)
    answered = client.get("/v1/model").json()
    assert ([each["label"] for each in answered["models"]], answered["problems"]) == ([before], list(policy.problems))
    assert samples(client)["pilotfish_reloads_total", (("result", "bad"), ("what", "model"))] == 1


def test_settings_that_name_another_folder_load_it(client, decider, change, tmp_path):
    release(tmp_path / "other", seed=2)
    before = label(decider)
    change(model={"folder": str(tmp_path / "other")})
    assert label(decider) != before
    change(model={"folder": str(tmp_path / "nowhere")})
    assert label(decider) != before
    assert "nowhere" in decider.policy.problems[0]
    change(model={"folder": "none"})
    assert client.post("/v1/score", json=SMALL).json()["source"] == "expected_utilisation"


def test_a_new_model_begins_with_a_closed_breaker_and_the_heuristics_keep_theirs(sidecar, decider, folder):
    for step in decider.ladder.steps:
        for _ in range(3):
            step.breaker.failed()
    release(folder, seed=1)
    sidecar.models.reload()
    assert [step.breaker.state for step in decider.ladder.steps] == ["closed", "open", "open"]


def test_a_decision_under_way_ends_with_the_ladder_it_began_with(decider, settings, metrics, clock):
    """Whoever climbs the old ladder while the new one is put in place is not disturbed."""
    snapshot, other = a_snapshot(), new_decider(settings, clock, metrics.on_ranking, metrics.on_skip)
    first = decider.ladder.steps[0].scorer

    class Swapping:
        name, needs = first.name, first.needs

        def score(self, state, demand, candidates):
            decider.reconfigure(settings, other.policy)
            return first.score(state, demand, candidates)

    decider.ladder = decider.ladder.with_steps([replace(decider.ladder.steps[0], scorer=Swapping())])
    from agent.cluster import Pod

    assert decider.decide(snapshot, Pod(uid="u1")).ranking.scores.source == "policy"
    assert len(decider.ladder.steps) == 3
