"""``pilotfish benchmark cluster``: one workload under several schedulers on a real control plane, the loop closed.

The scenario ``bursts`` is replayed ``SPEED`` times as fast as its tape says: pods are created in a real API server,
placed by a real scheduler, and what they do to the nodes comes back through a real Prometheus. Beside each result
stands what the simulator says of the same tape under the same rule. docs/benchmarks/cluster.md is written from it.

Every episode of every arm is kept in ``runs/`` under its commit: a run that was interrupted goes on where it was, and
one of more episodes (``PILOTFISH_CLUSTER_EPISODES``) plays only those that are new.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from agent.errors import InputError
from benchmarks.bars import Bar, measured
from benchmarks.closed_loop.arms import ARMS, DEFAULT, NETWORK_TRAFFIC, POLICY, Arm
from benchmarks.closed_loop.kept import Kept
from benchmarks.closed_loop.outcome import HARMS, Outcome, summed
from benchmarks.closed_loop.page import Results, write_page
from benchmarks.closed_loop.simulated import simulate, unavoidable_lost_share
from benchmarks.control_plane import control_plane
from envs.workloads.scenario import load_scenario
from envs.workloads.synthetic import make_tape
from envs.workloads.tape import Tape
from tests.cluster.building import PEERS, ToolMissing, tool
from tests.cluster.replaying import replaying

SCENARIO, SEED = "bursts", 1_000_000  # training stays below this seed
EPISODES_VARIABLE, EPISODES = "PILOTFISH_CLUSTER_EPISODES", 1
SPEED = 15.0
QUICK_SPEED, QUICK_TAPE_S = 20.0, 280.0  # the first burst comes within it
ANNOTATED_SHARE = 0.2  # of the pods, at most, with an error that the scenario draws

WORSE_TIMES, WORSE_POINTS = 1.1, 0.005  # a harm counts as above the default scheduler's beyond both


def run(quick: bool, traces: Path | None) -> Iterator[Bar]:
    """The quick form plays a short piece under two schedulers only."""
    arms = (DEFAULT, POLICY) if quick else ARMS
    if not quick:
        _check_that_peers_are_built()
    episodes = int(os.environ.get(EPISODES_VARIABLE, EPISODES))
    tapes = [tape_of(0, QUICK_TAPE_S)] if quick else [tape_of(episode) for episode in range(episodes)]
    kept, speed = Kept(None if quick else SPEED), QUICK_SPEED if quick else SPEED
    _play(arms, tapes, speed, kept)
    results = _results(arms, tapes, kept)
    if not quick:
        write_page(results, tapes, speed)
    yield from bars(results)


def bars(results: Results) -> Iterator[Bar]:
    policy, default = results.real[POLICY.name], results.real[DEFAULT.name]
    yield _lost_over("lost_traffic_over_default", policy, default, results)
    if NETWORK_TRAFFIC.name in results.real:
        yield _lost_over("lost_traffic_over_network_traffic", policy, results.real[NETWORK_TRAFFIC.name], results)
    above = [name for name in HARMS if policy.harms[name] > _allowed(default.harms[name])]
    yield measured("harms_above_default", len(above), above=", ".join(above) or "none")
    sources = {f"by_{name}": count for name, count in policy.sources.items()}
    yield measured("first_choice_share", policy.first_choice_share, pods=len(policy.first_choices), **sources)
    gaps = results.gaps(POLICY.name)
    worst = max(gaps, key=lambda name: gaps[name])
    yield measured("simulator_gap_largest_share", gaps[worst], of=worst)


def tape_of(episode: int, horizon_s: float | None = None) -> Tape:
    """An episode as the loop has it: what the simulator draws beside, the real parts bring themselves."""
    tape = make_tape(load_scenario(SCENARIO), SEED, episode)
    claims = np.flatnonzero(~np.isnan(tape.pod_annotated_mbps))
    annotated_mbps = tape.pod_annotated_mbps.copy()
    annotated_mbps[claims[int(ANNOTATED_SHARE * tape.pod_slots) :]] = np.nan
    return replace(
        tape,
        horizon_s=np.asarray(horizon_s or tape.horizon_s),
        pod_annotated_mbps=annotated_mbps,
        app_sibling_declared=np.zeros_like(tape.app_sibling_declared),
        pod_override=np.full_like(tape.pod_override, -1.0),  # the real kube-scheduler adds its own scores
        pod_visible_after=np.zeros_like(tape.pod_visible_after),
        scrape_missing=np.zeros_like(tape.scrape_missing),
        scrape_delay_s=tape.scrape_interval_s / 2,  # the sidecar asks once an interval, at any moment of it
    )


def _play(arms: Sequence[Arm], tapes: Sequence[Tape], speed: float, kept: Kept) -> None:
    missing = [(arm, episode) for episode in range(len(tapes)) for arm in arms if not kept.has(arm.name, episode)]
    if not missing:
        return
    with control_plane() as cluster:
        for arm, episode in missing:
            namespace = f"{arm.name.replace('_', '-')}-{episode}"
            with replaying(cluster, tapes[episode], speed, namespace, arm.annotated) as replay:
                kept.keep(arm.name, episode, arm.measured(replay))


def _results(arms: Sequence[Arm], tapes: Sequence[Tape], kept: Kept) -> Results:
    played = range(len(tapes))
    return Results(
        arms={arm.name: arm.says for arm in arms},
        real={arm.name: summed(kept.get(arm.name, episode) for episode in played) for arm in arms},
        simulated={arm.name: summed(_simulated(arm, tape) for tape in tapes) for arm in arms},
        unavoidable_lost_share=float(np.mean([unavoidable_lost_share(tape) for tape in tapes])),
        load_average=kept.load_average(),
    )


def _simulated(arm: Arm, tape: Tape) -> Outcome:
    if not arm.annotated:
        tape = replace(tape, pod_annotated_mbps=np.full_like(tape.pod_annotated_mbps, np.nan))
    if arm.knows_every_app:
        tape = replace(tape, pod_labelled=np.ones_like(tape.pod_labelled))
    return simulate(arm.likeness(), tape)


def _lost_over(bar: str, policy: Outcome, other: Outcome, results: Results) -> Bar:
    ours, theirs = policy.harms["lost_share"], other.harms["lost_share"]
    beside = {"policy": round(ours, 5), "other": round(theirs, 5)}
    floor = round(results.unavoidable_lost_share, 5)
    return measured(bar, ours / theirs if theirs else float(ours > 0), **beside, no_placement_avoids=floor)


def _allowed(harm: float) -> float:
    return max(WORSE_TIMES * harm, harm + WORSE_POINTS)


def _check_that_peers_are_built() -> None:
    try:
        for peer in PEERS:
            tool(peer.name)
    except ToolMissing as missing:
        raise InputError(str(missing)) from missing
