"""Whole episodes of groups of clusters, played by the policy that learns, with all that learning needs of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.cluster import BoolArray, FloatArray, IntArray
from agent.features import FeatureArray
from envs.batch_arrays import COUNT, POD_STATE
from envs.batch_credit import ATTRIBUTED
from envs.batch_env import BatchEnv
from envs.dynamics.costs import TERMS
from envs.rewards import WEIGHTS
from envs.workloads.tape import Tape


@dataclass(frozen=True, slots=True)
class Choice:
    """What a policy says to a batch of decisions, (decisions,) each."""

    action: IntArray
    value: FloatArray  # what the critic expects
    log_p: FeatureArray  # (decisions, nodes): logarithms of the nodes' probabilities
    explored: BoolArray  # drawn by its probability; the others are the likeliest


Act = Callable[[FeatureArray, FeatureArray, BoolArray], Choice]  # features of nodes, of the pod, and the mask

SHARED_USD = np.where([name in ATTRIBUTED for name in TERMS], 0.0, WEIGHTS.values())  # of the terms without an owner
ALL_USD = WEIGHTS.values()


@dataclass(frozen=True, slots=True)
class Decisions:
    """All decisions of the episodes, in the order in which they were taken; (decisions, ...) unless said otherwise."""

    nodes: FeatureArray  # (decisions, nodes, features)
    pod: FeatureArray
    mask: BoolArray  # (decisions, nodes)
    action: IntArray
    log_p: FeatureArray  # (decisions, nodes)
    step: IntArray  # where the decision lies in the arrays (steps, clusters)
    cluster: IntArray
    tape: IntArray  # the group
    pod_index: IntArray  # on the tape
    own_usd: FeatureArray  # (decisions, nodes): what the pod costs over the rest of the episode, there and elsewhere
    bound: IntArray  # the node it really went to
    explored: BoolArray  # drawn at random, and bound there
    cost_usd: FloatArray  # (steps, clusters): of the terms that nobody owns, until the next decision
    value: FloatArray  # (steps, clusters)
    last_value: FloatArray  # (clusters,)
    elapsed_s: FloatArray  # (steps, clusters)
    active: BoolArray  # (steps, clusters)


class _Steps:
    """What is noted at each step, put together at the end."""

    def __init__(self) -> None:
        self.rows: list[IntArray] = []
        self.parts: dict[str, list[NDArray[Any]]] = {}

    def note(self, **values: NDArray[Any]) -> None:
        for name, value in values.items():
            self.parts.setdefault(name, []).append(value)

    def joined(self, name: str) -> NDArray[Any]:
        return np.concatenate(self.parts[name])

    def dense(self, name: str, clusters: int) -> FloatArray:
        """(steps, clusters), 0 where a cluster had no decision."""
        out = np.zeros((len(self.rows), clusters))
        for step, rows in enumerate(self.rows):
            out[step, rows] = self.parts[name][step]
        return out


def play_episodes(act: Act, tape: Tape, group_size: int, own_account: bool, threads: int = 2) -> Decisions:
    """Play each tape ``group_size`` times to its end. Without ``own_account`` all costs stay with the cluster."""
    groups = len(tape.horizon_s)
    env = BatchEnv(tape, np.repeat(np.arange(groups), group_size), threads=threads, credits=own_account)
    usd_of_terms = SHARED_USD if own_account else ALL_USD
    steps, encoding = _Steps(), env.encode()
    actions = np.zeros(env.clusters, dtype=np.int64)
    while not env.done.all():
        rows = np.flatnonzero(~env.done)
        nodes, pod, mask = encoding.nodes[rows], encoding.pod[rows], env.candidates()[rows].copy()
        choice = act(nodes, pod, mask)
        actions[rows] = choice.action
        waiting = env.live.waiting[rows, env.live.count[rows, COUNT.offered]].astype(np.int64)
        before_s = env.clock_s.copy()
        before_usd = env.live.pod_credit[rows, waiting] if own_account else np.zeros(mask.shape, dtype=np.float32)
        terms = env.step(actions, encoding)
        bound = env.live.pod_state[rows, waiting, POD_STATE.node].astype(np.int64)
        steps.rows.append(rows)
        steps.note(
            nodes=nodes, pod=pod, mask=mask, action=choice.action, log_p=choice.log_p, value=choice.value,
            pod_index=waiting, before_usd=before_usd, bound=bound, explored=choice.explored & (bound == choice.action),
            cost_usd=(terms @ usd_of_terms)[rows],
            elapsed_s=(env.clock_s - before_s)[rows], step=np.full(len(rows), len(steps.rows) - 1), cluster=rows,
        )  # fmt: skip
    last_value = act(encoding.nodes, encoding.pod, env.candidates()).value
    return _decisions(env, steps, last_value, own_account)


def _decisions(env: BatchEnv, steps: _Steps, last_value: FloatArray, own: bool) -> Decisions:
    cluster, pod_index = steps.joined("cluster"), steps.joined("pod_index")
    final_usd = env.live.pod_credit[cluster, pod_index] if own else np.zeros_like(steps.joined("before_usd"))
    active = np.zeros((len(steps.rows), env.clusters), dtype=np.bool_)
    active[steps.joined("step"), cluster] = True
    return Decisions(
        nodes=steps.joined("nodes"), pod=steps.joined("pod"), mask=steps.joined("mask"), action=steps.joined("action"),
        log_p=steps.joined("log_p"), step=steps.joined("step"), cluster=cluster, tape=env.tape_of[cluster],
        pod_index=pod_index, own_usd=final_usd - steps.joined("before_usd"), bound=steps.joined("bound"),
        explored=steps.joined("explored"),
        cost_usd=steps.dense("cost_usd", env.clusters), value=steps.dense("value", env.clusters),
        last_value=last_value, elapsed_s=steps.dense("elapsed_s", env.clusters), active=active,
    )  # fmt: skip
