"""Which episodes the loop plays: by a rule that reads the tape alone, so that nobody's result chooses them.

A first placement that is overloaded already loses traffic whoever schedules. Such episodes outweigh all others in a sum
of traffic and say nothing about schedulers; nor does an episode in which no NIC is ever near its limit. That no cluster
is asked for more than its NICs carry, the generator sees to (envs/workloads/carrying.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice

import numpy as np

from benchmarks.closed_loop.simulated import MeteredWorld
from envs.workloads.carrying import asked_mbps
from envs.workloads.scenario import load_scenario
from envs.workloads.synthetic import make_tape
from envs.workloads.tape import Tape

SEED = 2_000_000  # training stays below 1,000,000, and 1,000,000 itself was looked at when the rule was made
ANNOTATED_SHARE = 0.2  # of the pods, at most, with an error that the scenario draws

PEAK_LEAST = 0.25  # of all NICs together, asked for at the busiest moment
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
    asked = np.maximum(*(pods + beside for pods, beside in asked_mbps(vars(tape))))
    if asked.max() < PEAK_LEAST * tape.node_nic_mbps.sum():
        return False
    both_ways_mbit = 2.0 * asked.mean() * float(tape.horizon_s)
    return bool(lost_at_first_mbit(tape) <= LOST_AT_FIRST_MOST * both_ways_mbit)


def lost_at_first_mbit(tape: Tape) -> float:
    """By the pods that run already, if no other came."""
    nobody = np.where(tape.pod_initial, tape.pod_arrival_s, np.inf).astype(np.float32)
    return MeteredWorld(replace(tape, pod_arrival_s=nobody)).meter.lost_mbit
