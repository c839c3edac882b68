"""Headroom: what a row says, and how rows get into the file and the document; imagined futures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agent.errors import InputError
from envs.batch_arrays import COUNT, NODE, POD_STATE, RUN_AT, RUN_MORE, TAPE_POD
from envs.batch_env import BatchEnv
from envs.workloads.scenario import LogNormal, Scenario, load_scenario, scenario_names
from training.futures import USE, Futures, Imagination, measured_at_s, pods_no_metric_shows, remaining_s
from training.headroom import as_markdown, is_small, measure, read_rows, run, write_rows
from training.rollouts import Search
from training.worlds import make_worlds

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    """Small and short, with chatty pods, so that where a pod goes costs money within a minute."""
    full = load_scenario("microservices")
    scraping = full.scraping.model_copy(update={"interval_s": [5.0], "window_s": [10.0], "delay_s": [0.0]})
    count = full.nodes.count.model_copy(update={"low": 6.0, "high": 6.0})
    nodes = full.nodes.model_copy(update={"count": count})
    arrivals = full.arrivals.model_copy(update={"duration_s": LogNormal(median=60, sigma=0.5)})
    changes = {"scraping": scraping, "nodes": nodes, "arrivals": arrivals, "horizon_s": 100.0}
    return full.model_copy(update=changes)


# --- rows


@pytest.mark.timeout(600)
def test_a_row_names_the_world_the_baselines_and_both_bounds(scenario: Scenario) -> None:
    row = measure(scenario, episodes=2, seed=1, search=Search(candidates=2, ahead_s=20.0, futures=1))
    assert row["scenario_digest"] == scenario.digest()
    assert row["best_cost"] == min(row["baselines"].values()) == row["baselines"][row["best_baseline"]]
    assert {"linear_mix", "expected_utilisation"} <= set(row["baselines"])
    assert row["rollouts_of"].startswith("linear_")
    saved = row["best_cost"] - row["clairvoyant_cost"]
    assert row["clairvoyant_headroom_pct"] == pytest.approx(100.0 * saved / row["best_cost"])
    assert {"attainable_cost", "attainable_ci95", "episodes", "seed"} <= set(row)


def test_a_scenario_measured_again_replaces_its_row_and_no_other(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "headroom.json"
    write_rows([{"scenario": "edge", "cost": 1}, {"scenario": "gpu", "cost": 2}], path)
    monkeypatch.setattr("training.headroom.measure", lambda world, *options: {"scenario": world.name, "cost": 3})
    run(["edge"], episodes=1, seed=1, search=Search(), as_json=True, save=path)
    assert read_rows(path) == [{"scenario": "gpu", "cost": 2}, {"scenario": "edge", "cost": 3}]


def test_fewer_nodes_make_another_world(tmp_path: Path, monkeypatch) -> None:
    worlds: list[Scenario] = []
    monkeypatch.setattr("training.headroom.measure", lambda world, *options: worlds.append(world) or {"scenario": "x"})
    run(["mixed"], episodes=1, seed=1, search=Search(), as_json=True, most_nodes=30)
    assert (worlds[0].nodes.count.low, worlds[0].nodes.count.high) == (30, 30)
    assert worlds[0].digest() != load_scenario("mixed").digest()


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text("[]")
    with pytest.raises(InputError, match="headroom rows"):
        read_rows(tmp_path / "rows.json")


@pytest.mark.parametrize(
    ("pct", "half", "small"), [(10.0, 2.0, False), (2.0, 0.1, True), (10.0, 11.0, True), (10.0, None, False)]
)
def test_headroom_is_small_if_it_is_little_or_cannot_be_told_from_none(pct: float, half: float, small: bool) -> None:
    assert is_small({"attainable_headroom_pct": pct, "attainable_ci95_pct": half}) == small


def test_the_document_shows_the_rows_of_the_file() -> None:
    rows = read_rows(DOCS / "headroom.json")
    assert {row["scenario"] for row in rows} == set(scenario_names())
    assert as_markdown(rows) in (DOCS / "headroom.md").read_text(encoding="utf-8")


# --- imagined futures


@pytest.mark.timeout(600)
def test_an_imagined_future_keeps_the_past_and_changes_what_comes(scenario: Scenario) -> None:
    env, rng = BatchEnv(make_worlds(scenario, 5, 1)), np.random.default_rng(0)
    arrived, clock_s = int(env.live.count[0, COUNT.arrived]), float(env.clock_s[0])
    futures, truth, seen = Futures(scenario, 5, range(1), 2), env.tapes.pod[0], []
    public = [column for column in range(truth.shape[1]) if column not in USE]
    for which in range(2):
        imagined = futures.blank(env.tapes)
        futures.write(imagined, env, 0, which, rng)
        row = imagined.pod[0]
        assert np.array_equal(row[:arrived, public], truth[:arrived, public], equal_nan=True)
        assert not np.array_equal(row[arrived:], truth[arrived:], equal_nan=True)
        coming = row[arrived:, TAPE_POD.arrival_s]
        assert (coming > clock_s).all()
        assert (np.diff(coming[np.isfinite(coming)]) >= 0).all()
        seen.append(row)
    assert not np.array_equal(seen[0], seen[1], equal_nan=True)


@pytest.mark.timeout(600)
def test_imagined_loads_go_on_from_where_the_metrics_saw_them_last(scenario: Scenario) -> None:
    """What moved since then is not known: loads that differ only after the last scrape are imagined alike."""
    env, rng = BatchEnv(make_worlds(scenario, 5, 1)), np.random.default_rng(0)
    futures, imagined, seen, now = Futures(scenario, 5, range(1), 1), [], 0, 0
    while seen == now and not env.done.all():
        env.step(np.argmax(env.candidates(), axis=1))
        seen = int(measured_at_s(env.live, env.tapes, 0) / scenario.loads.step_s)
        now = int(env.clock_s[0] / scenario.loads.step_s)
    assert 0 < seen < now
    for changed in (now, seen):
        before = env.tapes.app_load[0, changed].copy()
        for factor in (1.0, 2.0):
            env.tapes.app_load[0, changed] = factor * before
            imagined.append(futures.blank(env.tapes))
            futures.write(imagined[-1], env, 0, 0, rng)
        env.tapes.app_load[0, changed] = before
    hidden, doubled, _, shown = (tapes.app_load[0, now:] for tapes in imagined)
    np.testing.assert_array_equal(hidden, doubled)
    assert (shown > hidden).all()


@pytest.mark.timeout(600)
def test_the_use_of_a_pod_that_no_metric_shows_is_imagined(scenario: Scenario) -> None:
    env = BatchEnv(make_worlds(scenario, 5, 1))
    futures, drawn = Futures(scenario, 5, range(1), 1), []
    hidden = pods_no_metric_shows(env.live, env.tapes, 0)
    shown = np.setdiff1d(env.live.running[0, : env.live.count[0, COUNT.running]], hidden)
    assert len(hidden)
    assert len(shown)
    for factor in (1.0, 5.0):
        env.tapes.pod[0][:, USE] *= factor
        imagined = futures.blank(env.tapes)
        futures.write(imagined, env, 0, 0, np.random.default_rng(0))
        drawn.append(imagined.pod[0])
    np.testing.assert_array_equal(drawn[0][hidden][:, USE], drawn[1][hidden][:, USE])
    np.testing.assert_array_equal(5.0 * drawn[0][shown][:, USE], drawn[1][shown][:, USE])


@pytest.mark.timeout(600)
def test_the_use_of_a_labelled_pod_is_imagined_as_that_of_its_app(scenario: Scenario) -> None:
    env = BatchEnv(make_worlds(scenario, 5, 1))
    futures, pods = Futures(scenario, 5, range(1), 1), env.tapes.pod[0].copy()
    pods[:, TAPE_POD.labelled] = 1.0
    exists = np.flatnonzero(np.isfinite(pods[:, TAPE_POD.arrival_s]))
    like = futures._alike(pods[exists], pods, np.ones(scenario.apps.count), np.random.default_rng(0))
    np.testing.assert_array_equal(pods[like, TAPE_POD.app], pods[exists, TAPE_POD.app])
    unknown = futures._alike(pods[exists], pods, np.full(scenario.apps.count, np.nan), np.random.default_rng(0))
    assert not np.array_equal(pods[unknown, TAPE_POD.app], pods[exists, TAPE_POD.app])


@pytest.mark.timeout(600)
def test_copies_of_one_cluster_share_an_imagined_future_and_the_original_keeps_its_own(scenario: Scenario) -> None:
    env, rng = BatchEnv(make_worlds(scenario, 5, 2)), np.random.default_rng(0)
    rows = np.array([0, 0, 1])
    twin, running = env.clone(rows), int(env.live.count[0, COUNT.running])
    tape, ends_at_s = env.tapes.pod.copy(), env.live.run_ends_at_s.copy()
    Imagination(env, Futures(scenario, 5, range(2), 3), rng).apply(env, twin, rows)
    imagined = twin.live.run_ends_at_s[:, :running]
    np.testing.assert_array_equal(imagined[0], imagined[1])
    assert not np.array_equal(imagined[0], ends_at_s[0, :running])
    assert (imagined[0] > env.clock_s[0]).all()
    assert running > 0
    assert np.array_equal(env.tapes.pod, tape, equal_nan=True)
    np.testing.assert_array_equal(env.live.run_ends_at_s, ends_at_s)
    assert (env.live.run_more[0, :running, RUN_MORE.bound_at_s] <= env.clock_s[0]).all()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["deployments", "gpu"])
def test_pods_that_the_watch_does_not_show_yet_run_where_they_are_believed(name: str) -> None:
    """With every pod bound elsewhere than it was sent, what is true in a copy is what the sidecar knows."""
    world = load_scenario(name)
    binding = world.binding.model_copy(update={"override": 1.0, "visible_after": 20})
    world = world.model_copy(update={"binding": binding})
    env = BatchEnv(make_worlds(world, 5, 3))
    for _ in range(8):
        env.step(np.argmax(env.candidates(), axis=1))
    twin = env.clone(np.arange(3))
    Imagination(env, Futures(world, 5, range(3), 1), np.random.default_rng(0)).apply(env, twin, np.arange(3))
    wrong = env.live.node[:, NODE.pods] != env.live.node[:, NODE.known_pods]
    assert wrong.any(axis=1).all()
    assert (twin.live.pod_state[..., POD_STATE.node] != env.live.pod_state[..., POD_STATE.node]).any()
    for true, known in (
        (NODE.pods, NODE.known_pods),
        (NODE.cpu_allocated, NODE.known_cpu_requested),
        (NODE.memory_allocated, NODE.known_memory_requested),
    ):
        np.testing.assert_allclose(twin.live.node[:, true], twin.live.node[:, known], atol=1e-6)
    np.testing.assert_allclose(twin.live.gpu_free_milli, twin.live.known_gpu_free_milli)
    np.testing.assert_array_equal(twin.live.app_pods.sum(axis=1), twin.live.node[:, NODE.pods])
    np.testing.assert_array_equal(twin.live.app_zone_pods[:, :, :-1].sum(axis=2), twin.live.app_zone_pods[:, :, -1])
    for c in range(3):
        running = int(twin.live.count[c, COUNT.running])
        on_node = np.bincount(twin.live.run_at[c, :running, RUN_AT.node], minlength=twin.node_slots)
        np.testing.assert_array_equal(on_node, twin.live.node[c, NODE.pods])


@pytest.mark.timeout(600)
def test_where_pods_are_deleted_by_a_schedule_it_is_known() -> None:
    env, rng = BatchEnv(make_worlds(load_scenario("deployments"), 5, 2)), np.random.default_rng(0)
    for _ in range(5):
        env.step(np.argmax(env.candidates(), axis=1))
    rows, running = np.array([0, 1]), int(env.live.count[0, COUNT.running])
    twin = env.clone(rows)
    Imagination(env, Futures(load_scenario("deployments"), 5, range(2), 1), rng).apply(env, twin, rows)
    np.testing.assert_array_equal(twin.live.run_ends_at_s[0, :running], env.live.run_ends_at_s[0, :running])
    assert running > 0


def test_pods_that_have_run_long_run_longer() -> None:
    """Of a log-normal: with sigma 1 and an age of 10 medians, about half of what is left is above 5 medians."""
    rng, duration = np.random.default_rng(0), LogNormal(median=100, sigma=1)
    young = remaining_s(duration, np.full(20_000, 1.0), rng)
    old = remaining_s(duration, np.full(20_000, 1000.0), rng)
    assert np.median(young) == pytest.approx(99, rel=0.05)
    # P(total > x | total > 1000) = 1/2 at x = 100 exp(z), z with 1 - Phi(z) = (1 - Phi(ln 10)) / 2
    assert np.median(old) == pytest.approx(100 * np.exp(2.5526) - 1000, rel=0.1)
