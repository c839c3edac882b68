"""A real cluster behind the interface of Gymnasium: pods are bound for real, rewards come from metrics scraped after.

``LiveClusterEnv`` only translates, as ``ClusterEnv`` does for the simulator: the cluster is envs.live.session, the
observation is agent.features over its snapshot, the reward is envs.rewards over what envs.live_costs can see.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsInt

import gymnasium
import numpy as np
from gymnasium import spaces

from agent.cluster import BoolArray
from agent.errors import InputError
from agent.features import NODE_FEATURES, POD_FEATURES, encode
from envs import registration
from envs.cluster_env import InvalidAction, Observation, observation_space, one_of
from envs.live.binding import BindingRefused
from envs.live.cluster_settings import ClusterSettings
from envs.live.prometheus_settings import PrometheusSettings
from envs.live.session import LiveDecision, LiveSession
from envs.live_costs import CostMeter, Look
from envs.live_steps import NOWHERE, Happened, LiveStep
from envs.rewards import INVALID_ACTION_USD, Reward, reward_by_name, weighted_cost

SCHEDULER_NAME = "pilotfish-training"

registration.register()


class LiveClusterEnv(gymnasium.Env[Observation, np.int64]):
    """A real Kubernetes cluster that asks, for one pending pod after the other: which node?

    ## Description

    The environment is the scheduler of all pods that name ``scheduler_name`` as their ``schedulerName``, and of no
    others. It watches nodes and pods, reads Prometheus, and binds through ``pods/binding`` (``pilotfish rbac
    --training`` prints the rights). Pods with rules that it could not check (persistent volumes, required pod
    affinity, topology spread, host ports, resource claims, requests of ephemeral storage, huge pages or extended
    resources) are left alone.

    ## Action Space

    ``Discrete(max_nodes)``: the node for the pod that waits, in the order of ``node_names``. ``action_masks()`` is
    true for the feasible nodes, by the rules of agent/feasibility.py; there is always at least one, as a pod that fits
    nowhere is no decision. An action outside the mask is refused with an ``InputError`` that names the candidates;
    with ``invalid_action="wait"`` nothing is bound, and ``info["invalid_action"]`` tells. A node that became
    infeasible since the observation is not bound to either; ``info["refused"]`` says why.

    ## Observation Space

    ``Dict`` of ``nodes``, a row for each node slot and a column for each of ``NODE_FEATURES``, and ``pod``, one of
    ``POD_FEATURES`` each, both float32: the features of agent/features.py, as in ``ClusterEnv``. All 0 where an
    episode is truncated because no pod waits.

    ## Rewards

    ``reward="cost"``: minus the dollars that the cluster cost until the next decision, by the metrics scraped at least
    ``settle_s`` after the pod was bound, in the terms of envs.live_costs.SEEN and by the one table of docs/costs.md;
    and minus the price of a failed pod for an action outside the mask. ``ma``, ``la``, ``lc``, ``p0`` and ``argmin``
    as in ``ClusterEnv``, from the same metrics and for the node really bound. ``info`` has ``cost_usd``, ``terms``,
    ``elapsed_s``, ``clock_s``, ``bound_node``, ``bound_node_name``, ``decision_source`` (``agent`` or ``none``),
    ``refused``, ``measured``, ``pod`` and ``added_usd_per_hour``: dollars an hour after the pod came minus before.

    ## Starting State

    The cluster as it is, at the first pod that waits. ``reset`` connects the first time; a pod that was observed and
    not placed is offered again. Seeds change nothing.

    ## Episode End

    Truncated when no pod waits for ``arrival_within_s``, and when no metrics come within ``metrics_within_s``: then
    ``info["measured"]`` is false and the reward is 0. Terminated never, but for ``reward="la"``.

    ## Arguments

    * ``scheduler_name="pilotfish-training"``: whose pods are placed
    * ``cluster``, ``prometheus``: how they are reached; the groups of docs/settings.md, as objects or mappings
    * ``max_nodes=100``: node slots; a larger cluster is refused
    * ``reward="cost"``, ``invalid_action="refuse"``: as in ``ClusterEnv``
    * ``settle_s=None``: the reward's metrics are so much newer than the binding; None: the window of the rates
    * ``metrics_within_s=60``: patience with the metrics, beyond ``settle_s``
    * ``arrival_within_s=60``: patience with the arrivals

    ```python
    env = gymnasium.make("envs.registration:pilotfish/LiveCluster-v0", prometheus={"address": "http://localhost:9090"})
    ```

    ## Version History

    * v0: first version
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 as in Gymnasium

    def __init__(
        self,
        scheduler_name: str = SCHEDULER_NAME,
        cluster: ClusterSettings | Mapping[str, Any] | None = None,
        prometheus: PrometheusSettings | Mapping[str, Any] | None = None,
        max_nodes: int = 100,
        reward: str = "cost",
        invalid_action: InvalidAction = "refuse",
        settle_s: float | None = None,
        metrics_within_s: float = 60.0,
        arrival_within_s: float = 60.0,
        render_mode: None = None,
    ) -> None:
        self.scheduler_name = scheduler_name
        self.cluster = ClusterSettings.model_validate(cluster or {})
        self.prometheus = PrometheusSettings.model_validate(prometheus or {})
        self.max_nodes = max_nodes
        self._rewarded, self._by_cost = reward_by_name(reward), reward.lower() == "cost"
        self.invalid_action = one_of("invalid_action", invalid_action, ("refuse", "wait"))
        self.render_mode = one_of("render_mode", render_mode, (None,))
        self.settle_s = self.prometheus.window_s if settle_s is None else settle_s
        self.metrics_within_s, self.arrival_within_s = metrics_within_s, arrival_within_s
        self.action_space = spaces.Discrete(max_nodes)
        self.observation_space = observation_space(max_nodes)
        self._session: LiveSession | None = None
        self._decision: LiveDecision | None = None
        self._meter = CostMeter()

    @property
    def decision(self) -> LiveDecision:
        """The pod that waits for an action."""
        if self._decision is None:
            raise InputError("no pod waits for a node: call reset()")
        return self._decision

    @property
    def node_names(self) -> tuple[str, ...]:
        return self.decision.names

    # --- Gymnasium

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        if self._session is None:
            self._session = LiveSession(self.cluster, self.prometheus, self.scheduler_name)
        self._session.seen(self.metrics_within_s)
        self._decision = self._next()
        if self._decision is None:
            raise InputError(
                f"no pod with schedulerName {self.scheduler_name!r} that a node could take came within"
                f" {self.arrival_within_s:g} s"
            )
        return self._observation(), {"clock_s": self.decision.at_s, "pod": self.decision.pod_name}

    def step(self, action: SupportsInt) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        decision, node = self.decision, int(action)
        invalid = not self._is_candidate(node)
        if invalid and self.invalid_action == "refuse":
            allowed = ", ".join(map(str, np.flatnonzero(decision.mask)))
            raise InputError(f"node {node} cannot take pod {decision.pod_name}: choose one of {allowed}")
        before = self._meter.rates(Look(decision.names, decision.state))
        happened = self._skipped() if invalid else self._placed(decision, node)
        after = before if happened.after is None else self._meter.rates(happened.after)
        self._decision = None if happened.unseen else self._next()
        step = LiveStep(decision, happened, before, after, self._now_s(), invalid)
        reward = self._reward(step)
        return self._observation(), float(reward.value), bool(reward.ends), self._decision is None, step.info()

    def action_masks(self) -> BoolArray:
        """True for the nodes that may be chosen now; the name is the one that sb3-contrib looks for."""
        return np.pad(self.decision.mask, (0, self.max_nodes - len(self.decision.mask)))

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None
        self._decision = None

    # --- parts

    @property
    def _connected(self) -> LiveSession:
        assert self._session is not None  # there is a decision, so there was a reset
        return self._session

    def _next(self) -> LiveDecision | None:
        decision = self._connected.decision(self.arrival_within_s)
        if decision is not None and len(decision.names) > self.max_nodes:
            raise InputError(f"the cluster has {len(decision.names)} nodes: raise max_nodes, which is {self.max_nodes}")
        return decision

    def _now_s(self) -> float:
        return self._connected.clock() if self._decision is None else self._decision.at_s

    def _is_candidate(self, node: int) -> bool:
        mask = self.decision.mask
        return 0 <= node < len(mask) and bool(mask[node])

    def _skipped(self) -> Happened:
        self._connected.moment()
        return Happened(NOWHERE, None)

    def _placed(self, decision: LiveDecision, node: int) -> Happened:
        """Bind, and wait until the metrics show what the pod does there."""
        try:
            bound_at_s = self._connected.place(decision, node)
        except BindingRefused as why:
            return Happened(NOWHERE, None, str(why))
        name = decision.names[node]
        snapshot = self._connected.measured(name, bound_at_s + self.settle_s, self.settle_s + self.metrics_within_s)
        if snapshot is None:
            return Happened(node, None)
        after = Look(snapshot.nodes.names, snapshot.state)
        self._meter.placed(name, Look(decision.names, decision.state), after, decision.demand)
        return Happened(node, after)

    def _reward(self, step: LiveStep) -> Reward:
        if self._by_cost:
            penalty_usd = INVALID_ACTION_USD if step.invalid else 0.0
            return Reward(0.0 - weighted_cost(step.terms) - penalty_usd, np.asarray(False))
        if step.happened.after is None:
            return Reward(np.asarray(0.0), np.asarray(False))
        return self._rewarded(step.outcome())

    def _observation(self) -> Observation:
        nodes = np.zeros((self.max_nodes, len(NODE_FEATURES)), dtype=np.float32)
        if self._decision is None:
            return {"nodes": nodes, "pod": np.zeros(len(POD_FEATURES), dtype=np.float32)}
        encoding = encode(self._decision.state, self._decision.demand, self._decision.mask)
        nodes[: len(encoding.nodes)] = encoding.nodes
        return {"nodes": nodes, "pod": encoding.pod}
