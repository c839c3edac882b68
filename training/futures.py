"""Other futures of a running cluster, as an agent must imagine them: the same nodes and apps, unknown what comes.

What the agent cannot know is drawn again: arrivals after now, how long running pods go on (given how long they
have run), how app and background loads move on from where they are. What has happened stays.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri  # type: ignore[import-untyped]

from agent.cluster import FloatArray, IntArray
from envs.batch_arrays import COUNT, RUN_MORE, TAPE_POD, Tapes, pack
from envs.batch_env import BatchEnv
from envs.workloads.scenario import LogNormal, Scenario
from envs.workloads.synthetic import make_tape, sizes_of
from envs.workloads.tape import stack

OLDEST = 4.0  # medians: the age at which a pod counts that ran before the sidecar came


class Futures:
    """Resampled continuations of the tapes of one scenario and seed; so many are drawn of each, to be used again."""

    def __init__(self, scenario: Scenario, seed: int, episodes: range, drawn: int) -> None:
        self.scenario, self.drawn = scenario, drawn
        others = [make_tape(scenario, seed, episode, 1 + k) for episode in episodes for k in range(drawn)]
        self._drawn = pack(stack(others, sizes_of(scenario)))  # row index * drawn + k

    def blank(self, tapes: Tapes) -> Tapes:
        """Room for one future of every tape."""
        return Tapes._make(column.copy(order="K") for column in tapes)  # other strides would be compiled anew

    def write(self, out: Tapes, tapes: Tapes, index: int, which: int, clock_s: float, arrived: int) -> None:
        """Fill the row of the episode at this index: the past of its tape, then other arrivals and loads."""
        row = index * self.drawn + which
        self._pods(out.pod[index], tapes.pod[index], self._drawn.pod[row], clock_s, arrived)
        self._loads(out, tapes, index, row, clock_s)

    def _pods(self, out: FloatArray, past: FloatArray, drawn: FloatArray, clock_s: float, arrived: int) -> None:
        first = int(np.searchsorted(drawn[:, TAPE_POD.arrival_s], clock_s, side="right"))
        coming = drawn[first : first + len(out) - arrived]
        out[:arrived] = past[:arrived]
        out[arrived:] = 0.0
        out[arrived:, TAPE_POD.arrival_s] = np.inf
        out[arrived : arrived + len(coming)] = coming

    def _loads(self, out: Tapes, tapes: Tapes, index: int, row: int, clock_s: float) -> None:
        loads = self.scenario.loads
        now = min(int(clock_s / loads.step_s), tapes.app_load.shape[1] - 1)
        ahead = np.arange(tapes.app_load.shape[1] - now)[:, None]
        series = [(out.app_load[index], tapes.app_load[index], self._drawn.app_load[row], loads.app_memory_s)]
        for kind in range(out.background.shape[1]):
            truth, drawn = tapes.background[index, kind], self._drawn.background[row, kind]
            series.append((out.background[index, kind], truth, drawn, loads.background_memory_s))
        for target, truth, drawn, memory_s in series:
            keep = np.exp(-ahead * loads.step_s / memory_s)
            away = np.log(np.maximum(truth[now], 1e-6) / np.maximum(drawn[now], 1e-6))
            target[now:] = np.minimum(drawn[now:] * np.exp(keep * away), 50.0)


class Imagination:
    """Gives copies of clusters a future that is not the true one; all copies of one cluster get the same."""

    def __init__(self, env: BatchEnv, futures: Futures, rng: np.random.Generator) -> None:
        self._futures, self._rng = futures, rng
        self._tapes = futures.blank(env.tapes)
        self._duration_s = futures.scenario.arrivals.duration_s

    def apply(self, env: BatchEnv, twin: BatchEnv, rows: IntArray) -> None:
        """``rows[i]`` is the cluster of ``env``, on a tape of its own, of which ``twin``'s cluster ``i`` is a copy."""
        live = env.live
        for index in np.unique(rows):
            which, arrived = int(self._rng.integers(self._futures.drawn)), int(live.count[index, COUNT.arrived])
            self._futures.write(self._tapes, env.tapes, index, which, float(env.clock_s[index]), arrived)
        twin.use_tapes(self._tapes, rows)
        age_s = env.clock_s[:, None] - live.run_more[:, :, RUN_MORE.bound_at_s]
        age_s = np.clip(age_s, 0.0, OLDEST * self._duration_s.median)
        ends_at_s = env.clock_s[:, None] + remaining_s(self._duration_s, age_s, self._rng)
        waiting_s = remaining_s(self._duration_s, np.zeros(live.pod_left_s.shape), self._rng)
        twin.live.run_ends_at_s[:, : ends_at_s.shape[1]] = ends_at_s[rows]
        twin.live.pod_left_s[:] = waiting_s[rows]


def remaining_s(duration: LogNormal, age_s: FloatArray, rng: np.random.Generator) -> FloatArray:
    """How much longer pods of these ages run, drawn from the log-normal given that they ran so long."""
    sigma = max(duration.sigma, 1e-6)
    reached = ndtr((np.log(np.maximum(age_s, 1e-3)) - math.log(duration.median)) / sigma)
    quantile = np.minimum(reached + (1.0 - reached) * rng.random(age_s.shape), 1.0 - 1e-9)
    total_s = duration.median * np.exp(sigma * ndtri(quantile))
    return np.asarray(np.maximum(total_s - age_s, 1.0))
