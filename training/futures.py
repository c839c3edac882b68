"""Other futures of a running cluster, as an agent must imagine them: the same nodes and apps, unknown what comes.

What the agent cannot know is drawn again: arrivals after now, how long running pods go on (given how long they
have run), how app and background loads moved on from where the metrics saw them last, and what pods use that no
metric shows yet: like other pods of their app where the app is known by its label, like any pod where it is not.
A pod that the watch does not show yet is where the sidecar believes it. What the metrics show stays: the sum of a
node's pods is measured, so those keep their true use.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri  # type: ignore[import-untyped]

from agent.cluster import FloatArray, IntArray
from agent.gpu import take_gpus
from envs.batch_arrays import (
    COUNT,
    NODE,
    POD_STATE,
    RULE,
    RUN,
    RUN_AT,
    RUN_MORE,
    TAPE_POD,
    UNSEEN,
    Live,
    Tapes,
    pack,
)
from envs.batch_env import BatchEnv
from envs.batch_placing import allocate
from envs.dynamics.knowledge import RX
from envs.workloads.scenario import LogNormal, Scenario
from envs.workloads.synthetic import make_tape, sizes_of
from envs.workloads.tape import stack

OLDEST = 4.0  # medians: the age at which a pod counts that ran before the sidecar came
USE = [TAPE_POD.cpu_use_ratio, TAPE_POD.memory_use_ratio, TAPE_POD.rx_mbps, TAPE_POD.tx_mbps]


class Futures:
    """Resampled continuations of the tapes of one scenario and seed; so many are drawn of each, to be used again."""

    def __init__(self, scenario: Scenario, seed: int, episodes: range, drawn: int) -> None:
        self.scenario, self.drawn = scenario, drawn
        others = [make_tape(scenario, seed, episode, 1 + k) for episode in episodes for k in range(drawn)]
        self._drawn = pack(stack(others, sizes_of(scenario)))  # row index * drawn + k

    def blank(self, tapes: Tapes) -> Tapes:
        """Room for one future of every tape."""
        return Tapes._make(column.copy(order="K") for column in tapes)  # other strides would be compiled anew

    def write(self, out: Tapes, env: BatchEnv, index: int, which: int, rng: np.random.Generator) -> None:
        """Fill the row of the episode at this index: what is known of its past, then other arrivals and loads."""
        row, clock_s, tapes, live = index * self.drawn + which, float(env.clock_s[index]), env.tapes, env.live
        arrived, drawn = int(live.count[index, COUNT.arrived]), self._drawn.pod[row]
        self._pods(out.pod[index], tapes.pod[index], drawn, clock_s, arrived)
        hidden = pods_no_metric_shows(live, tapes, index)
        like = self._alike(tapes.pod[index, hidden], drawn, live.observed[index, :, RX], rng)
        out.pod[index, hidden[:, None], USE] = drawn[like[:, None], USE]
        self._loads(out, tapes, index, row, clock_s, min(measured_at_s(live, tapes, index), clock_s))

    def _alike(self, pods: FloatArray, drawn: FloatArray, observed: FloatArray, rng: np.random.Generator) -> IntArray:
        """For each pod one of the drawn ones that may stand for it: of its app if the app is known, else any."""
        others = drawn[np.isfinite(drawn[:, TAPE_POD.arrival_s]), TAPE_POD.app].astype(np.int64)
        app = pods[:, TAPE_POD.app].astype(np.int64)
        known = (pods[:, TAPE_POD.labelled] > 0) & np.isfinite(observed[app])
        like = rng.integers(len(others), size=len(pods))
        for each in np.flatnonzero(known):
            same = np.flatnonzero(others == app[each])
            like[each] = rng.choice(same) if len(same) else like[each]
        return np.asarray(like)

    def _pods(self, out: FloatArray, past: FloatArray, drawn: FloatArray, clock_s: float, arrived: int) -> None:
        first = int(np.searchsorted(drawn[:, TAPE_POD.arrival_s], clock_s, side="right"))
        coming = drawn[first : first + len(out) - arrived]
        out[:arrived] = past[:arrived]
        out[arrived:] = 0.0
        out[arrived:, TAPE_POD.arrival_s] = np.inf
        out[arrived : arrived + len(coming)] = coming

    def _loads(self, out: Tapes, tapes: Tapes, index: int, row: int, clock_s: float, measured_s: float) -> None:
        loads, last = self.scenario.loads, tapes.app_load.shape[1] - 1
        now, seen = (min(int(max(at_s, 0.0) / loads.step_s), last) for at_s in (clock_s, measured_s))
        since = np.arange(now - seen, last + 1 - seen)[:, None]
        series = [(out.app_load[index], tapes.app_load[index], self._drawn.app_load[row], loads.app_memory_s)]
        for kind in range(out.background.shape[1]):
            truth, drawn = tapes.background[index, kind], self._drawn.background[row, kind]
            series.append((out.background[index, kind], truth, drawn, loads.background_memory_s))
        for target, truth, drawn, memory_s in series:
            keep = np.exp(-since * loads.step_s / memory_s)
            away = np.log(np.maximum(truth[seen], 1e-6) / np.maximum(drawn[seen], 1e-6))
            target[now:] = np.minimum(drawn[now:] * np.exp(keep * away), 50.0)


class Imagination:
    """Gives copies of clusters a future that is not the true one; all copies of one cluster get the same."""

    def __init__(self, env: BatchEnv, futures: Futures, rng: np.random.Generator) -> None:
        self._futures, self._rng = futures, rng
        self._tapes = futures.blank(env.tapes)
        self._duration_s = futures.scenario.arrivals.duration_s
        self._by_schedule = futures.scenario.arrivals.deployments > 0  # all deleted at once, in every round alike

    def apply(self, env: BatchEnv, twin: BatchEnv, rows: IntArray) -> None:
        """``rows[i]`` is the cluster of ``env``, on a tape of its own, of which ``twin``'s cluster ``i`` is a copy."""
        live = env.live
        for index in np.unique(rows):
            self._futures.write(self._tapes, env, index, int(self._rng.integers(self._futures.drawn)), self._rng)
        twin.use_tapes(self._tapes, rows)
        _use_as_on_tape(twin)
        where_believed(twin)
        if self._by_schedule:
            return
        age_s = env.clock_s[:, None] - live.run_more[:, :, RUN_MORE.bound_at_s]
        age_s = np.clip(age_s, 0.0, OLDEST * self._duration_s.median)
        ends_at_s = env.clock_s[:, None] + remaining_s(self._duration_s, age_s, self._rng)
        waiting_s = remaining_s(self._duration_s, np.zeros(live.pod_left_s.shape), self._rng)
        twin.live.run_ends_at_s[:, : ends_at_s.shape[1]] = ends_at_s[rows]
        twin.live.pod_left_s[:] = waiting_s[rows]


def pods_no_metric_shows(live: Live, tapes: Tapes, index: int) -> IntArray:
    """Pods that wait, and those bound so late that their node's measured rates hold less than half of them."""
    running = int(live.count[index, COUNT.running])
    node = live.run_at[index, :running, RUN_AT.node]
    shown_until_s = live.node[index, NODE.sampled_at_s, node] - 0.5 * tapes.rule[index, RULE.rate_window_s]
    late = live.run_more[index, :running, RUN_MORE.bound_at_s] > shown_until_s
    waiting = live.waiting[index, : int(live.count[index, COUNT.waiting])]
    hidden = np.concatenate([live.running[index, :running][late], waiting]).astype(np.int64)
    declared = np.isfinite(tapes.pod[index, hidden, TAPE_POD.annotated_mbps])
    return np.asarray(hidden[~declared])


def measured_at_s(live: Live, tapes: Tapes, index: int) -> float:
    """When the loads were as the metrics say: in the middle of the window of the last scrape that arrived."""
    at_s = live.node[index, NODE.sampled_at_s]
    known = at_s[np.isfinite(at_s)]
    newest_s = float(np.median(known)) if len(known) else 0.0
    return newest_s - 0.5 * float(tapes.rule[index, RULE.rate_window_s])


def where_believed(twin: BatchEnv) -> None:
    """Pods that the watch does not show yet run where the sidecar believes them, not where they were really bound."""
    live = twin.live
    unseen = np.arange(live.unseen.shape[2]) < live.count[:, COUNT.unseen, None]
    cluster, index = np.nonzero(unseen)
    pod = live.unseen[cluster, UNSEEN.pod, index]
    state = live.pod_state[cluster, pod]
    real, believed = state[:, POD_STATE.node], state[:, POD_STATE.known_node]
    elsewhere = (real != believed) | (state[:, POD_STATE.devices] != state[:, POD_STATE.known_devices])
    for row in np.flatnonzero(elsewhere & (real >= 0) & (believed >= 0)):
        _move(twin, int(cluster[row]), int(pod[row]), int(real[row]), int(believed[row]))


def _move(twin: BatchEnv, c: int, pod: int, real: int, believed: int) -> None:
    live, tapes, t = twin.live, twin.tapes, int(twin.tape_of[c])
    state, milli = live.pod_state[c, pod], float(tapes.pod[t, pod, TAPE_POD.gpu_milli])
    take_gpus(live.gpu_free_milli[c, real], int(state[POD_STATE.devices]), -milli)
    take_gpus(live.gpu_free_milli[c, believed], int(state[POD_STATE.known_devices]), milli)
    allocate(live, tapes, c, t, pod, real, -1)
    allocate(live, tapes, c, t, pod, believed, 1)
    state[POD_STATE.node], state[POD_STATE.devices] = believed, state[POD_STATE.known_devices]
    slot = live.running[c, : live.count[c, COUNT.running]].tolist().index(pod)
    live.run_at[c, slot, RUN_AT.node] = believed


def _use_as_on_tape(twin: BatchEnv) -> None:
    """Running pods use from now on what their tapes say."""
    live, pod = twin.live, twin.tapes.pod
    tape, slots = twin.tape_of[:, None], live.running.astype(np.int64)
    exists = np.arange(slots.shape[1])[None, :] < live.count[:, COUNT.running, None]
    of = pod[tape, np.where(exists, slots, 0)].astype(np.float64)
    use = np.stack(
        [
            of[..., TAPE_POD.cpu_request_millicores] * of[..., TAPE_POD.cpu_use_ratio],
            of[..., TAPE_POD.memory_request_mib] * of[..., TAPE_POD.memory_use_ratio],
            of[..., TAPE_POD.rx_mbps],
            of[..., TAPE_POD.tx_mbps],
        ],
        axis=-1,
    )
    live.run[:, :, [RUN.cpu, RUN.memory, RUN.rx, RUN.tx]] = np.where(
        exists[..., None], use, live.run[:, :, [RUN.cpu, RUN.memory, RUN.rx, RUN.tx]]
    )


def remaining_s(duration: LogNormal, age_s: FloatArray, rng: np.random.Generator) -> FloatArray:
    """How much longer pods of these ages run, drawn from the log-normal given that they ran so long."""
    sigma = max(duration.sigma, 1e-6)
    reached = ndtr((np.log(np.maximum(age_s, 1e-3)) - math.log(duration.median)) / sigma)
    quantile = np.minimum(reached + (1.0 - reached) * rng.random(age_s.shape), 1.0 - 1e-9)
    total_s = duration.median * np.exp(sigma * ndtri(quantile))
    return np.asarray(np.maximum(total_s - age_s, 1.0))
