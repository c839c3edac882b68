"""The readable reference environment: one simulated cluster behind the interface of Gymnasium.

``ClusterEnv`` only translates: the world is envs.dynamics.world, the observation is agent.features over what a sidecar
would know, the reward is envs.rewards. For training use the batch (envs.batch_env, training.vec_env), which plays by
the same rules a thousand times faster; use this one to look, to debug and to check the batch against.
"""

from __future__ import annotations

from typing import Any, Literal, SupportsInt

import gymnasium
import numpy as np
from gymnasium import spaces

from agent.cluster import BoolArray
from agent.errors import InputError
from agent.features import NODE_FEATURES, POD_FEATURES, encode
from envs import registration
from envs.dynamics.costs import TERMS
from envs.rewards import INVALID_ACTION_USD, Reward, reward_by_name, weighted_cost
from envs.watched_world import WatchedWorld
from envs.workloads import tape as tapes
from envs.workloads.scenario import Scenario, load_scenario
from envs.workloads.synthetic import make_tape, sizes_of
from envs.workloads.tape import Sizes, Tape

Observation = dict[str, Any]  # nodes and pod: FeatureArray
InvalidAction = Literal["refuse", "wait"]

# Nearly every feature is a ratio or a logarithm; round trips and latencies are not, so the bounds are wide.
# Below 0 only by rounding: what is added and taken away again need not come back to 0 exactly.
FEATURE_LOW, FEATURE_HIGH = -1.0, 10_000.0
TAPES = 2**31  # of which an episode draws one
TRIES = 20  # tapes without any decision in a row before the scenario is blamed

registration.register()


def observation_space(nodes: int) -> spaces.Dict:
    """Of a cluster with so many node slots."""
    return spaces.Dict(
        {
            "nodes": spaces.Box(FEATURE_LOW, FEATURE_HIGH, (nodes, len(NODE_FEATURES)), np.float32),
            "pod": spaces.Box(FEATURE_LOW, FEATURE_HIGH, (len(POD_FEATURES),), np.float32),
        }
    )


class ClusterEnv(gymnasium.Env[Observation, np.int64]):
    """A Kubernetes cluster that asks, for one pending pod after the other: which node?

    ## Description

    Pods of chatty apps arrive, run for a while and leave; nodes differ in size, zone, network, price and power. The
    agent knows what a sidecar would know: requests from the watch, some decisions late, and metrics by scraping, old,
    averaged and with gaps. The truth stays inside (design in docs/architecture.md).

    ## Action Space

    ``Discrete(max_nodes)``: the node for the pod that waits. ``action_masks()`` is true for the candidates that
    kube-scheduler would offer; there is always at least one, as a pod that fits nowhere waits and is no decision. An
    action outside the mask is refused with an ``InputError`` that names the candidates; with
    ``invalid_action="wait"`` it places nothing, the pod waits for the next tick, and ``info["invalid_action"]`` tells.

    ## Observation Space

    ``Dict`` of ``nodes``, ``Box(max_nodes, 44)``, and ``pod``, ``Box(16)``, both float32: the features of
    agent/features.py (docs/features.md). Rows of nodes that are no candidates are 0, as are those of absent nodes.

    ## Rewards

    ``reward="cost"``: minus the dollars that the cluster cost until the next decision (docs/costs.md), and minus the
    price of a failed pod for an action outside the mask. ``ma``, ``la``, ``lc``, ``p0`` and ``argmin`` are those of the
    NetworkTraffic thesis, measured after the placement on the node where the pod was really bound; nothing placed
    earns 0. ``info`` has the costs whatever the reward: ``cost_usd``, ``terms`` by name in their own units,
    ``elapsed_s`` (discount by it: decisions are not evenly spaced), ``clock_s``, ``bound_node`` and
    ``decision_source``: ``agent``, ``scheduler`` (another plugin's score won) or ``none`` (nothing placed).

    ## Starting State

    A cluster in the steady state of its scenario, at the first decision. ``reset(seed=...)`` draws the number of a tape
    (everything that happens whatever the scheduler does), so the same seed gives the same arrivals to every agent.
    ``reset(options={"tape": 7})`` plays that tape of the scenario, ``options={"tape": tape}`` one that was imported.

    ## Episode End

    Truncated at the scenario's horizon. Terminated never, but for ``reward="la"``: choosing the fullest node ends it.

    ## Arguments

    * ``scenario="microservices"``: a name of envs/scenarios, the path of a YAML file, or a ``Scenario``
    * ``reward="cost"``: one of ``cost``, ``ma``, ``la``, ``lc``, ``p0``, ``argmin``
    * ``invalid_action="refuse"``: or ``"wait"``, for algorithms that know no masks
    * ``tape_seed=0``: another seed is another set of tapes, as training and evaluation need
    * ``assume=True``: whether the sidecar counts its own placements before the metrics show them
    * ``render_mode=None``: ``"human"`` (a table in the terminal) or ``"rgb_array"``

    ```python
    env = gymnasium.make("envs.registration:pilotfish/Cluster-v0", scenario="microservices", reward="cost")
    ```

    ## Version History

    * v0: first version
    """

    metadata: dict[str, Any] = {"render_modes": ["human", "rgb_array"], "render_fps": 4}  # noqa: RUF012 as in Gymnasium

    def __init__(
        self,
        scenario: str | Scenario = "microservices",
        reward: str = "cost",
        invalid_action: InvalidAction = "refuse",
        tape_seed: int = 0,
        assume: bool = True,
        render_mode: str | None = None,
    ) -> None:
        self.scenario = load_scenario(scenario) if isinstance(scenario, str) else scenario
        self.reward_name, self._rewarded = reward.lower(), reward_by_name(reward)
        self.invalid_action = one_of("invalid_action", invalid_action, ("refuse", "wait"))
        self.render_mode = one_of("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        self.tape_seed = tape_seed
        self.assume = assume
        self.max_nodes = sizes_of(self.scenario).nodes
        self.action_space = spaces.Discrete(self.max_nodes)
        self.observation_space = observation_space(self.max_nodes)
        self._world: WatchedWorld | None = None
        self._over = False
        self._screen: Any = None

    @property
    def world(self) -> WatchedWorld:
        """The simulator itself, truth included: for pictures and tests, never for an agent."""
        if self._world is None:
            raise InputError("no episode has begun: call reset() first")
        return self._world

    # --- Gymnasium

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._world, number = self._first_with_a_decision(_wanted_tape(options))
        self._over = False
        if self.render_mode == "human":
            self.render()
        return self._observation(), {"tape": number, "clock_s": self.world.clock_s}

    def step(self, action: SupportsInt) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        world, node = self.world, int(action)
        if self._over:
            raise InputError("the episode is over: call reset()")
        before_s = world.clock_s
        invalid = self.invalid_action == "wait" and not self._is_candidate(node)
        terms = world.skip() if invalid else world.step(node)
        reward = self._reward(invalid)
        terminated, truncated = bool(reward.ends), bool(world.done)
        self._over = terminated or truncated
        info = {
            "cost_usd": float(weighted_cost(terms)),
            "terms": dict(zip(TERMS, terms.tolist(), strict=True)),
            "elapsed_s": float(world.clock_s - before_s),
            "clock_s": float(world.clock_s),
            "invalid_action": invalid,
            **self._who_decided(node, invalid),
        }
        if self.render_mode == "human":
            self.render()
        return self._observation(), float(reward.value), terminated, truncated, info

    def action_masks(self) -> BoolArray:
        """True for the nodes that may be chosen now; the name is the one that sb3-contrib looks for."""
        return self.world.candidates()

    def render(self) -> Any:
        if self.render_mode is None:
            gymnasium.logger.warn('nothing to render: make the environment with render_mode="human" or "rgb_array"')
            return None
        # Imported here: matplotlib and rich are no part of simulating.
        from envs.rendering import Screen

        if self._screen is None:
            self._screen = Screen()
        return self._screen.show(self.world) if self.render_mode == "human" else self._screen.picture(self.world)

    def close(self) -> None:
        if self._screen is not None:
            self._screen.close()
            self._screen = None

    # --- parts

    def _first_with_a_decision(self, wanted: int | Tape | None) -> tuple[WatchedWorld, int]:
        for _ in range(1 if wanted is not None else TRIES):
            number, tape = self._tape(wanted)
            world = WatchedWorld(padded(tape, self.max_nodes), self.assume, watch=self.reward_name != "cost")
            if not world.done:
                return world, number
        raise InputError(
            f"no pod waits for a decision before the horizon of {self.scenario.horizon_s:g} s: give the scenario more"
            " arrivals or a longer horizon_s"
        )

    def _tape(self, wanted: int | Tape | None) -> tuple[int, Tape]:
        """The tape and its number; -1 for one that was given."""
        if isinstance(wanted, Tape):
            return -1, wanted
        number = int(self.np_random.integers(TAPES)) if wanted is None else wanted
        return number, make_tape(self.scenario, self.tape_seed, number)

    def _observation(self) -> Observation:
        world = self.world
        encoding = encode(world.state(), world.demand(), world.candidates())
        return {"nodes": encoding.nodes, "pod": encoding.pod}

    def _is_candidate(self, node: int) -> bool:
        return 0 <= node < self.max_nodes and bool(self.world.mask[node])

    def _reward(self, invalid: bool) -> Reward:
        if self.reward_name == "cost":
            penalty_usd = INVALID_ACTION_USD if invalid else 0.0
            return Reward(0.0 - weighted_cost(self.world.terms) - penalty_usd, np.asarray(False))
        if invalid:
            return Reward(np.asarray(0.0), np.asarray(False))
        return self._rewarded(self.world.outcome())

    def _who_decided(self, node: int, invalid: bool) -> dict[str, Any]:
        if invalid:
            return {"bound_node": -1, "decision_source": "none"}
        bound = self.world.bound_node
        return {"bound_node": bound, "decision_source": "agent" if bound == node else "scheduler"}


def padded(tape: Tape, nodes: int) -> Tape:
    """The same tape with absent nodes up to this many: the spaces of an environment do not change with the episode."""
    if tape.node_slots > nodes:
        raise InputError(f"the tape has {tape.node_slots} nodes, the scenario at most {nodes}: raise nodes.count.high")
    if tape.node_slots == nodes:
        return tape
    steps, scrapes = tape.app_load.shape[0], tape.scrape_missing.shape[0]
    return tapes.stack([tape], Sizes(nodes, tape.pod_slots, tape.app_slots, tape.zone_slots, steps, scrapes)).one(0)


def _wanted_tape(options: dict[str, Any] | None) -> int | Tape | None:
    tape = (options or {}).get("tape")
    if tape is None or isinstance(tape, Tape):
        return tape
    if isinstance(tape, int | np.integer) and tape >= 0:
        return int(tape)
    raise InputError(f"options['tape'] is {tape!r}: give the number of a tape, from 0 on, or a Tape")


def one_of(name: str, value: Any, choices: tuple[Any, ...]) -> Any:
    """The value of an argument, refused if it is none of these."""
    if value not in choices:
        raise InputError(f"unknown {name} {value!r}: choose one of {', '.join(map(str, choices))}")
    return value
