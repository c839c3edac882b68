"""Other futures of a running cluster, as an agent must imagine them: the same nodes and apps, unknown what comes.

What the agent cannot know is drawn again: arrivals after now, how long running pods go on (given how long they
have run), how app and background loads move on from where they are. What has happened stays.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri  # type: ignore[import-untyped]

from agent.cluster import FloatArray
from envs.batch_arrays import TAPE_POD, Tapes, pack
from envs.workloads.scenario import LogNormal, Scenario
from envs.workloads.synthetic import make_tape, sizes_of
from envs.workloads.tape import stack


class Futures:
    """Resampled continuations of the tapes of one scenario and seed."""

    def __init__(self, scenario: Scenario, seed: int, episodes: int, futures: int) -> None:
        sizes = sizes_of(scenario)
        self.scenario = scenario
        self.futures = futures
        drawn = [make_tape(scenario, seed, index, 1 + k) for index in range(episodes) for k in range(futures)]
        self._drawn = pack(stack(drawn, sizes))  # row index * futures + k

    def blank(self, tapes: Tapes) -> Tapes:
        """Room for every future of every tape."""
        return Tapes._make(np.repeat(column, self.futures, axis=0) for column in tapes)

    def write(self, out: Tapes, tapes: Tapes, index: int, clock_s: float, arrived: int) -> None:
        """Fill the rows of one episode: the past of its tape, then other arrivals and loads."""
        for k in range(self.futures):
            row = index * self.futures + k
            self._pods(out.pod[row], tapes.pod[index], self._drawn.pod[row], clock_s, arrived)
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
        pairs = [(out.app_load[row], tapes.app_load[index], self._drawn.app_load[row], loads.app_memory_s)]
        for kind in range(out.background.shape[1]):
            series = (out.background[row, kind], tapes.background[index, kind], self._drawn.background[row, kind])
            pairs.append((*series, loads.background_memory_s))
        for target, truth, drawn, memory_s in pairs:
            keep = np.exp(-ahead * loads.step_s / memory_s)
            away = np.log(np.maximum(truth[now], 1e-6) / np.maximum(drawn[now], 1e-6))
            target[now:] = np.minimum(drawn[now:] * np.exp(keep * away), 50.0)


def remaining_s(duration: LogNormal, age_s: FloatArray, rng: np.random.Generator) -> FloatArray:
    """How much longer pods of these ages run, drawn from the log-normal given that they ran so long."""
    sigma = max(duration.sigma, 1e-6)
    reached = ndtr((np.log(np.maximum(age_s, 1e-3)) - math.log(duration.median)) / sigma)
    quantile = np.minimum(reached + (1.0 - reached) * rng.random(age_s.shape), 1.0 - 1e-9)
    total_s = duration.median * np.exp(sigma * ndtri(quantile))
    return np.asarray(np.maximum(total_s - age_s, 1.0))
