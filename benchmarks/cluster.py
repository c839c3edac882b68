"""``pilotfish benchmark cluster``: one workload under several schedulers on a real control plane, the loop closed.

A scenario is replayed ``SPEED`` times as fast as its tape says: pods are created in a real API server, placed by a real
scheduler, and what they do to the nodes comes back through a real Prometheus. Beside each result stands what the
simulator says of the same tapes under the same rule. docs/benchmarks/cluster.md is written from it.

Every episode of every arm is kept in ``runs/`` under its commit: a run that was interrupted goes on where it was, and
one of more episodes plays only those that are new. The arms that the bars need are played first.

    PILOTFISH_CLUSTER_SCENARIO=autoscaled   another scenario than ``bursts``; its page has the scenario in its name
    PILOTFISH_CLUSTER_EPISODES=6            of each of the arms that the bars need
    PILOTFISH_CLUSTER_ARMS=bars             those alone: nothing but ``make cluster-tools`` is needed
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from agent.errors import InputError
from benchmarks.bars import Bar, measured
from benchmarks.closed_loop.arms import BAR_ARMS, DEFAULT, NETWORK_TRAFFIC, OTHER_ARMS, POLICY, Arm
from benchmarks.closed_loop.clairvoyant import plan
from benchmarks.closed_loop.episodes import first_tapes, tape_of
from benchmarks.closed_loop.kept import Kept
from benchmarks.closed_loop.outcome import HARMS, Outcome, means, summed
from benchmarks.closed_loop.page import Results, write_page
from benchmarks.closed_loop.simulated import as_a_sidecar_knows_it, simulate_often
from benchmarks.control_plane import control_plane
from benchmarks.report import Origin, origin
from envs.workloads.tape import Tape
from tests.cluster.building import PEERS, ToolMissing, tool
from tests.cluster.replaying import replaying

SCENARIO_VARIABLE, SCENARIO = "PILOTFISH_CLUSTER_SCENARIO", "bursts"
EPISODES_VARIABLE, EPISODES = "PILOTFISH_CLUSTER_EPISODES", 8
ARMS_VARIABLE, BARS_ALONE = "PILOTFISH_CLUSTER_ARMS", "bars"
OTHER_EPISODES = 1  # of the arms that no bar compares
SPEED = 15.0
QUICK_SPEED, QUICK_TAPE_S = 20.0, 280.0  # the first burst comes within it

WORSE_TIMES, WORSE_POINTS = 1.1, 0.005  # a harm counts as above the default scheduler's beyond both


def run(quick: bool, traces: Path | None) -> Iterator[Bar]:
    """The quick form plays a short piece under two schedulers only."""
    results = _quick_results() if quick else _full_results()
    yield from bars(results)


def _quick_results() -> Results:
    began = origin()
    tapes, kept = [tape_of(SCENARIO, 0, QUICK_TAPE_S)], Kept(began.commit, SCENARIO, None)
    wanted = [(DEFAULT, 1), (POLICY, 1)]
    _play(wanted, tapes, QUICK_SPEED, kept)
    return _results(began, wanted, tapes, kept)


def _full_results() -> Results:
    began = origin()
    scenario = os.environ.get(SCENARIO_VARIABLE, SCENARIO)
    episodes = int(os.environ.get(EPISODES_VARIABLE, EPISODES))
    wanted = [(arm, episodes) for arm in BAR_ARMS]
    if os.environ.get(ARMS_VARIABLE) != BARS_ALONE:
        _check_that_peers_are_built()
        wanted += [(arm, min(OTHER_EPISODES, episodes)) for arm in OTHER_ARMS]
    tapes, kept = first_tapes(scenario, episodes), Kept(began.commit, scenario, SPEED)
    _play(wanted, tapes, SPEED, kept)
    results = _results(began, wanted, tapes, kept)
    write_page(results, tapes, SPEED, "" if scenario == SCENARIO else scenario)
    return results


def bars(results: Results) -> Iterator[Bar]:
    policy, default = (summed(results.real[arm.name]) for arm in (POLICY, DEFAULT))
    yield _lost_over("lost_traffic_over_default", policy, default, results)
    if NETWORK_TRAFFIC.name in results.real:
        yield _lost_over(
            "lost_traffic_over_network_traffic", policy, summed(results.real[NETWORK_TRAFFIC.name]), results
        )
    above = [name for name in HARMS if policy.harms[name] > _allowed(default.harms[name])]
    yield measured("harms_above_default", len(above), above=", ".join(above) or "none", arms=_by_arm(results))
    sources = {f"by_{name}": count for name, count in policy.sources.items()}
    yield measured("first_choice_share", policy.first_choice_share, pods=len(policy.first_choices), **sources)
    yield _gap(results)


def _play(wanted: Sequence[tuple[Arm, int]], tapes: Sequence[Tape], speed: float, kept: Kept) -> None:
    """Arm by arm within an episode: what the machine does meanwhile meets all of them."""
    missing = [
        (arm, episode)
        for arms in (BAR_ARMS, OTHER_ARMS)
        for episode in range(len(tapes))
        for arm, episodes in wanted
        if arm in arms and episode < episodes and not kept.has(arm.name, episode)
    ]
    if not missing:
        return
    with control_plane() as cluster:
        for arm, episode in missing:
            namespace = f"{arm.name.replace('_', '-')}-{episode}"
            with replaying(cluster, tapes[episode], speed, namespace, arm.annotated) as replay:
                kept.keep(arm.name, episode, arm.measured(replay))


def _results(began: Origin, wanted: Sequence[tuple[Arm, int]], tapes: Sequence[Tape], kept: Kept) -> Results:
    return Results(
        origin=began,
        arms={arm.name: arm.says for arm, _ in wanted},
        real={arm.name: [kept.get(arm.name, episode) for episode in range(count)] for arm, count in wanted},
        simulated={arm.name: [_simulated(arm, tape) for tape in tapes[:count]] for arm, count in wanted},
        planned=[plan(tape) for tape in tapes],
        load_average=kept.load_average(),
    )


def _simulated(arm: Arm, tape: Tape) -> list[Outcome]:
    if not arm.annotated:
        tape = replace(tape, pod_annotated_mbps=np.full_like(tape.pod_annotated_mbps, np.nan))
    if arm.knows_every_app:
        tape = replace(tape, pod_labelled=np.ones_like(tape.pod_labelled))
    else:
        tape = as_a_sidecar_knows_it(tape)
    return simulate_often(arm.likeness(), tape)


def _lost_over(bar: str, policy: Outcome, other: Outcome, results: Results) -> Bar:
    ours, theirs = policy.harms["lost_share"], other.harms["lost_share"]
    beside = {"policy": round(ours, 5), "other": round(theirs, 5), "clairvoyant": round(results.planned_lost_share, 5)}
    return measured(bar, ours / theirs if theirs else float(ours > 0), episodes=results.episodes, **beside)


def _gap(results: Results) -> Bar:
    gaps = {name: results.gaps(name) for name in results.real}
    worst = {name: max(found, key=found.__getitem__) for name, found in gaps.items()}
    of = worst[POLICY.name]
    low, high = (round(bound, 5) for bound in results.chance(POLICY.name)[of])
    real = round(summed(results.real[POLICY.name]).harms[of], 5)
    others = {
        f"gap_of_{name}": f"{gaps[name][harm]:.3f} ({harm})" for name, harm in worst.items() if name != POLICY.name
    }
    beside = {"of": of, "real": real, "simulated_from": low, "simulated_to": high, **others}
    return measured("simulator_gap_largest_share", gaps[POLICY.name][of], **beside)


def _by_arm(results: Results) -> dict[str, dict[str, Any]]:
    """All that was measured of every arm and what the simulator says of it, to be kept with the bars."""
    return {
        name: {
            "episodes": len(outcomes),
            "measured": _rounded(means(outcomes)),
            "simulated": _rounded(results.predicted(name)),
            "gaps": _rounded(results.gaps(name)),
        }
        for name, outcomes in results.real.items()
    }


def _rounded(numbers: Mapping[str, float]) -> dict[str, float | None]:
    """JSON has no NaN."""
    return {name: round(number, 5) if isfinite(number) else None for name, number in numbers.items()}


def _allowed(harm: float) -> float:
    return max(WORSE_TIMES * harm, harm + WORSE_POINTS)


def _check_that_peers_are_built() -> None:
    try:
        for peer in PEERS:
            tool(peer.name)
    except ToolMissing as missing:
        raise InputError(str(missing)) from missing
