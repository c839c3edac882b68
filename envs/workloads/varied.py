"""Loads of which each moves in a way of its own.

In a scenario all apps rise and fall alike, and so do all nodes' backgrounds. Those of real clusters do not: in the
traces of docs/traces.md most services are steadier than the scenarios' and a few are wilder, and a node's traffic may
hold still for minutes, flicker, or come in peaks of many times its mean. Who learns in worlds of one kind alone packs
nodes as tightly as that kind allows. So in ``loads.varied`` of the episodes strength, pace and level are drawn for
every app and node, from ranges about as wide as what was measured. No row of a trace is in them.
"""

from __future__ import annotations

import math

import numpy as np

from agent.cluster import FloatArray
from envs.workloads.arrivals import Columns
from envs.workloads.draws import Rng, draw, wander, with_peaks
from envs.workloads.scenario import MOST_BACKGROUND, CutLogNormal, Loads
from envs.workloads.tape import Sizes

APP_SIGMA = CutLogNormal(median=0.25, sigma=0.8, most=1.2)  # of the logarithm of a load
BACKGROUND_SIGMA = CutLogNormal(median=0.4, sigma=1.1, most=1.6)
SHORTEST_AND_LONGEST = (math.log(10.0), math.log(600.0))  # seconds of memory: every order of magnitude alike
LEVEL_SIGMA = 0.3  # of the logarithm of an app's mean over an episode
STREAM = 7  # a random stream of its own: whether loads are varied changes nothing else


def is_varied(loads: Loads, seed: int, index: int) -> bool:
    return loads.varied > 0.0 and _stream(seed, index).random() < loads.varied


def varied_loads(
    loads: Loads, sizes: Sizes, cpu: FloatArray, network: FloatArray, seed: int, index: int, future: int
) -> Columns:
    """In place of a tape's own; ``cpu`` and ``network`` are the mean backgrounds of the nodes."""
    ways, noise = _stream(seed, index), _stream(seed, index, future)

    def moving(count: int, strength: CutLogNormal) -> FloatArray:
        """Around a mean of 1, each in its own way; what the ways are is the same in every future."""
        sigma, memory_s = draw(strength, count, ways), np.exp(ways.uniform(*SHORTEST_AND_LONGEST, count))
        moved = wander(sizes.steps, count, loads.step_s / memory_s, noise)
        return np.asarray(np.exp(sigma * moved - sigma**2 / 2.0))

    level = np.exp(LEVEL_SIGMA * ways.standard_normal(sizes.apps) - LEVEL_SIGMA**2 / 2.0)
    app = with_peaks(moving(sizes.apps, APP_SIGMA) * level, loads, noise)
    means = {"background_cpu_ratio": cpu, "background_rx_ratio": network, "background_tx_ratio": network}
    beside = {
        name: np.minimum(moving(len(mean), BACKGROUND_SIGMA) * mean, MOST_BACKGROUND) for name, mean in means.items()
    }
    return {"app_load": app, **beside}


def _stream(*numbers: int) -> Rng:
    return np.random.default_rng(np.random.SeedSequence(numbers, spawn_key=(STREAM,)))
