"""A pod's own account of every node against the cost of the whole cluster, with the pod there and without it."""

from __future__ import annotations

import numpy as np
import pytest

from agent.heuristics.least_allocated import LeastAllocated
from envs import batch_credit, batch_ticking
from envs.batch_arrays import COUNT, RUN, RUN_AT, RUN_MORE, TAPE_APP, TAPE_LOAD, TAPE_NODE
from envs.batch_env import BatchEnv
from envs.rewards import WEIGHTS
from envs.workloads.scenario import load_scenario
from envs.workloads.synthetic import make_tapes
from training.play import choose

TICK_S = 2.0


def played(scenario: str, steps: int, seed: int = 3) -> BatchEnv:
    env = BatchEnv(make_tapes(load_scenario(scenario), seed, range(2)), threads=1, credits=True)
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        env.step(choose(LeastAllocated(), env, rng))
    return env


class Cluster:
    """The first cluster of a batch, reckoned anew from its pods in plain Python."""

    def __init__(self, env: BatchEnv) -> None:
        live, self.tapes = env.live, env.tapes
        self.count = int(live.count[0, COUNT.running])
        self.nodes = int(live.count[0, COUNT.nodes])
        self.run, self.more = live.run[0, : self.count], live.run_more[0, : self.count]
        self.node = live.run_at[0, : self.count, RUN_AT.node].astype(int)
        self.app = live.run_at[0, : self.count, RUN_AT.app].astype(int)
        self.step = min(int(live.clock_s[0] / self.tapes.rule[0, 0]), self.tapes.app_load.shape[1] - 1)
        self.zone = self.tapes.node[0, TAPE_NODE.zone].astype(int)
        sizes = np.bincount(self.app, minlength=self.tapes.app.shape[2])
        rate = self.tapes.app[0, TAPE_APP.sibling_mbps] * self.tapes.app_load[0, self.step]
        self.pair_mbps = np.where(sizes > 1, rate / np.maximum(sizes - 1, 1), 0.0)  # from one pod to one sibling

    def usd_per_s(self, there: np.ndarray, node: np.ndarray) -> float:
        """Of the terms that depend on where these pods are; flows between them are as if all were there."""
        spec = self.tapes.node[0]
        load = self.tapes.app_load[0, self.step, self.app].astype(float)
        nic = spec[TAPE_NODE.nic_mbps, : self.nodes]
        background = self.tapes.background[0, :, self.step, : self.nodes].astype(float)
        rx, tx = background[TAPE_LOAD.rx_ratio] * nic, background[TAPE_LOAD.tx_ratio] * nic
        cpu = background[TAPE_LOAD.cpu_ratio] * spec[TAPE_NODE.cpu_millicores, : self.nodes]
        memory, pods, cross_zone = spec[TAPE_NODE.background_memory_mib, : self.nodes].copy(), np.zeros(self.nodes), 0.0
        for one in np.flatnonzero(there):
            at = node[one]
            pods[at] += 1
            cpu[at] += self.run[one, RUN.cpu] * load[one]
            memory[at] += self.run[one, RUN.memory]
            rx[at] += self.run[one, RUN.rx] * load[one]
            tx[at] += self.run[one, RUN.tx] * load[one]
            for other in np.flatnonzero(there & (self.app == self.app[one])):
                flow = self.pair_mbps[self.app[one]]
                if node[other] != at:
                    tx[at] += flow
                    rx[node[other]] += flow
                    cross_zone += flow * (self.zone[node[other]] != self.zone[at])
        return self._dollars(cpu, memory, pods, rx, tx, cross_zone)

    def _dollars(self, cpu, memory, pods, rx, tx, cross_zone) -> float:  # type: ignore[no-untyped-def]
        spec = self.tapes.node[0][:, : self.nodes]
        capacity, nic = spec[TAPE_NODE.cpu_millicores], spec[TAPE_NODE.nic_mbps]
        lost_mbps = np.maximum(rx - nic, 0).sum() + np.maximum(tx - nic, 0).sum()
        throttled_cores = np.maximum(cpu - capacity, 0).sum() / 1000.0
        idle, peak = spec[TAPE_NODE.power_idle_watts], spec[TAPE_NODE.power_peak_watts]
        watts = np.where(pods > 0, idle + (peak - idle) * np.minimum(cpu / capacity, 1.0), 0.0).sum()
        price = spec[TAPE_NODE.price_usd_per_hour][pods > 0].sum()
        usd_per_s = WEIGHTS.network_loss * lost_mbps / 8000 + WEIGHTS.cross_zone * cross_zone / 8000
        usd_per_s += WEIGHTS.cpu_throttling * throttled_cores + WEIGHTS.energy * watts / 3.6e6 + price / 3600
        kills = float((memory > spec[TAPE_NODE.memory_mib]).sum())
        return float(usd_per_s + kills * WEIGHTS.memory_kills / batch_credit.KILL_EVERY_S)


def charged(env: BatchEnv, seconds: float) -> np.ndarray:
    """What every pod of the first cluster pays for so long, right after it was bound, (pods, nodes)."""
    env.live.pod_credit[:] = 0.0
    env.live.run_more[0, :, RUN_MORE.bound_at_s] = env.live.clock_s[0]
    batch_ticking.loads(env.live, env.tapes, 0, 0)
    batch_credit.credit(env.live, env.tapes, 0, 0, seconds)
    return np.array(env.live.pod_credit[0], dtype=float)


@pytest.mark.parametrize(("scenario", "steps"), [("microservices", 60), ("bursts", 150), ("overload", 120)])
def test_account_of_a_node_is_the_cost_with_the_pod_there_minus_without_it(scenario: str, steps: int) -> None:
    env = played(scenario, steps)
    accounts = charged(env, TICK_S)
    cluster = Cluster(env)
    everybody = np.ones(cluster.count, dtype=np.bool_)
    for slot in range(0, cluster.count, 11):
        without = everybody.copy()
        without[slot] = False
        alone = cluster.usd_per_s(without, cluster.node)
        for node in range(0, cluster.nodes, 3):
            moved = cluster.node.copy()
            moved[slot] = node
            expected = TICK_S * (cluster.usd_per_s(everybody, moved) - alone)
            assert accounts[env.live.running[0, slot], node] == pytest.approx(expected, rel=1e-4, abs=1e-9)


def test_pods_pay_for_their_latency_violations() -> None:
    env = played("edge", 60)
    running, count = env.live.running[0], env.live.count[0, COUNT.running]
    home = env.live.run_at[0, :count, RUN_AT.node].astype(int)
    with_limits = charged(env, 1.0)[running[:count], home].sum()
    violations = env.live.between[0, 1]
    assert violations > 0
    env.live.run_more[0, :, RUN_MORE.soft_ms] = np.nan
    without = charged(env, 1.0)[running[:count], home].sum()
    assert with_limits - without == pytest.approx(WEIGHTS.latency_violation * violations, rel=1e-4)


def test_what_comes_long_after_the_binding_counts_less() -> None:
    env = played("microservices", 40)
    now = charged(env, TICK_S)
    env.live.pod_credit[:] = 0.0
    env.live.run_more[0, :, RUN_MORE.bound_at_s] = env.live.clock_s[0] - batch_credit.FADES_S
    batch_credit.credit(env.live, env.tapes, 0, 0, TICK_S)
    np.testing.assert_allclose(env.live.pod_credit[0], now / np.e, rtol=1e-3, atol=1e-12)


def test_without_credits_nothing_is_kept_and_costs_are_the_same() -> None:
    with_credits = played("microservices", 40)
    without = BatchEnv(make_tapes(load_scenario("microservices"), 3, range(2)), threads=1)
    rng = np.random.default_rng(3)
    for _ in range(40):
        without.step(choose(LeastAllocated(), without, rng))
    assert without.live.pod_credit.shape[:2] == (2, 0)
    np.testing.assert_array_equal(without.live.terms, with_credits.live.terms)
    assert with_credits.live.pod_credit.sum() > 0
