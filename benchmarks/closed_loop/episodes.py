"""Which episodes the loop plays: by a rule that reads the tape alone, so that nobody's result chooses them.

A cluster that is asked for more than all its NICs carry, a pod larger than a NIC and a first placement that is
overloaded already lose traffic whoever schedules. Such episodes outweigh all others in a sum of traffic and say nothing
about schedulers; nor does an episode in which no NIC is ever near its limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice

import numpy as np

from agent.cluster import FloatArray
from benchmarks.closed_loop.simulated import MeteredWorld
from envs.workloads.scenario import load_scenario
from envs.workloads.synthetic import make_tape
from envs.workloads.tape import Tape

SEED = 2_000_000  # training stays below 1,000,000, and 1,000,000 itself was looked at when the rule was made
ANNOTATED_SHARE = 0.2  # of the pods, at most, with an error that the scenario draws

PEAK_LEAST, PEAK_MOST = 0.25, 1.0  # of all NICs together, asked for at the busiest moment
LOST_AT_FIRST_MOST = 0.0005  # of all that is asked for, by the pods that run already, with nobody else there


def first_tapes(scenario: str, episodes: int) -> list[Tape]:
    """The first that the rule takes."""
    return list(islice(_taken(scenario), episodes))


def _taken(scenario: str) -> Iterator[Tape]:
    for episode in count():
        tape = tape_of(scenario, episode)
        if is_fair(tape):
            yield tape


def tape_of(scenario: str, episode: int, horizon_s: float | None = None) -> Tape:
    """An episode as the loop has it: what the simulator draws beside, the real parts bring themselves."""
    tape = make_tape(load_scenario(scenario), SEED, episode)
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


def is_fair(tape: Tape) -> bool:
    """Whether what is lost is lost by scheduling, and something is at stake."""
    asked_mbps, largest_pod_mbps = _asked(tape)
    peak = asked_mbps.max() / tape.node_nic_mbps.sum()
    if not PEAK_LEAST <= peak <= PEAK_MOST or largest_pod_mbps > tape.node_nic_mbps.max():
        return False
    both_ways_mbit = 2.0 * asked_mbps.mean() * float(tape.horizon_s)
    return bool(lost_at_first_mbit(tape) <= LOST_AT_FIRST_MOST * both_ways_mbit)


def lost_at_first_mbit(tape: Tape) -> float:
    """By the pods that run already, if no other came."""
    nobody = np.where(tape.pod_initial, tape.pod_arrival_s, np.inf).astype(np.float32)
    return MeteredWorld(replace(tape, pod_arrival_s=nobody)).meter.lost_mbit


def _asked(tape: Tape) -> tuple[FloatArray, float]:
    """Of all NICs in their busier direction, step by step, if every pod ran at once and none beside a sibling.

    And by the largest pod, at its largest.
    """
    step_s = float(tape.load_step_s)
    middle_s = (np.arange(int(float(tape.horizon_s) / step_s)) + 0.5)[:, None] * step_s
    runs = (tape.pod_arrival_s <= middle_s) & (middle_s < tape.pod_arrival_s + tape.pod_duration_s)
    load = tape.app_load[: len(middle_s), tape.pod_app] * runs  # (steps, pods)
    siblings_mbps = tape.app_sibling_mbps[tape.pod_app]
    ways = ((tape.pod_rx_mbps, tape.background_rx_ratio), (tape.pod_tx_mbps, tape.background_tx_ratio))
    totals = [
        load @ (external + siblings_mbps) + background[: len(middle_s)] @ tape.node_nic_mbps
        for external, background in ways
    ]
    largest = max(float((load * (external + siblings_mbps)).max()) for external, _ in ways)
    return np.maximum(*totals), largest
