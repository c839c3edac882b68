"""The released policy, learning on a real cluster: one placement after the other, few and careful.

Placements are judged by what each added to the cost of the cluster, minus what the critic expected, over the spread of
the update's placements. The update is that of training.ppo; only the last layers move, those that turn what is known
of a node into its score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from agent.cluster import BoolArray, FloatArray, IntArray
from agent.features import Encoding, FeatureArray
from envs.cluster_env import Observation
from envs.live_env import LiveClusterEnv
from models.network import NodeScorer, usable
from models.onnx_scorer import OnnxScorer
from training.config import Network, TrainConfig, World
from training.episode_buffer import Lesson
from training.live_config import Exploring, LiveConfig
from training.live_guard import Guard
from training.live_refusals import Refusals
from training.ppo import EpisodicPPO

LEARNING = ("score.weight", "rule.weight", "sharpness")  # the last layers of the network
LIMIT = 3.0  # no placement counts more than so many times their spread
LEARNER, RELEASED = "learner", "released"


@dataclass(frozen=True, slots=True)
class Placement:
    """One decision of the policy that learns, and what came of it."""

    nodes: FeatureArray  # (nodes, features), as the network sees them
    pod: FeatureArray
    mask: BoolArray
    log_p: FeatureArray  # (nodes,)
    value: float
    action: int
    weight: float  # one over the odds with which it was drawn
    gain: float = 0.0  # minus the dollars an hour that it added


@dataclass(frozen=True, slots=True)
class Placements:
    """Several, as arrays, (decisions, ...) each: what a lesson is made of."""

    nodes: FeatureArray
    pod: FeatureArray
    mask: BoolArray
    log_p: FeatureArray


Note = Callable[[dict[str, Any]], None]
Keep = Callable[["LivePPO"], None]


class LivePPO(EpisodicPPO):
    """``learn(pods)`` places so many pods; ``note`` is told of each, ``keep`` whenever there is news to go on from."""

    def __init__(
        self, env: LiveClusterEnv, released: OnnxScorer, network: NodeScorer, config: LiveConfig, note: Note, keep: Keep
    ) -> None:
        self.live, self.released, self.first, self.live_config = env, released, network, config
        self.note, self.keep = note, keep
        self.guard, self.refusals = Guard(config.safety), Refusals()
        self.idle = False  # no pod came for too long
        self.whole = True  # no update is under way
        self._rng = np.random.default_rng(config.seed)
        self._seen: Observation | None = None
        training = TrainConfig(
            worlds=[World(scenario=name) for name in config.exam.scenarios],
            seed=config.seed,
            threads=1,
            network=Network(hidden=network.hidden),
            learning=config.learning,
        )
        rules = network.rule.weight.detach().double().numpy()  # as many as it has
        super().__init__([], training, rules, DummyVecEnv([lambda: env]))
        for name, weights in self.learner.scorer.named_parameters():
            weights.requires_grad = name in LEARNING
        self.begin_anew()

    def begin_anew(self) -> None:
        """From the released weights, with an optimiser that remembers nothing."""
        for scorer in (self.learner.scorer, self.scorer):
            scorer.load_state_dict(self.first.state_dict())
        self.policy.optimizer.state.clear()

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: RolloutBuffer,
        n_rollout_steps: int,
        use_masking: bool = True,
    ) -> bool:
        """Place the next pods; those of the policy that learns become a lesson."""
        callback.on_rollout_start()
        self.policy.set_training_mode(False)
        self.keep(self)
        made: list[Placement] = []
        for _ in range(min(self.live_config.pods_per_update, self._total_timesteps - self.num_timesteps)):
            if self.idle:
                break
            made = self._placed(made)
        self.lessons.fill([lesson_of(made)] if made else [], seed=self._number(1))
        self.updates += 1
        callback.on_rollout_end()
        return callback.on_step() and not (self.idle and not made)

    def train(self) -> None:
        if self.lessons.lessons:
            self.whole = False
            super().train()
            self.whole = True

    def _placed(self, made: list[Placement]) -> list[Placement]:
        """Place one pod; the placements to learn from now, none after a fall."""
        observation, mask = self._now()
        by_learner = self.guard.learner_decides()
        choice = self._explored(observation, mask) if by_learner else None
        action = self._as_released(observation, mask) if choice is None else choice.action
        info = self._bound(action)
        if info["decision_source"] == "none":
            return made  # nothing was bound: nobody's doing, and no placement
        fell = self._fell(by_learner, info)
        self.keep(self)
        self.note({"by": LEARNER if by_learner else RELEASED, **info})
        if fell:
            return []
        return [*made, replace(choice, gain=-info["added_usd_per_hour"])] if choice and info["measured"] else made

    def _bound(self, action: int) -> dict[str, Any]:
        """Bind the pod. It counts before it is bound: a run that is stopped in between must not place one too many."""
        self.num_timesteps += 1
        self.keep(self)
        self._seen, _, _, truncated, info = self.live.step(action)
        refused = info["decision_source"] == "none"
        if truncated:
            self._seen, self.idle = None, info["measured"] or refused
        if refused:
            self.num_timesteps -= 1
            self.refusals.refused(info["pod"], info["refused"])
        else:
            self.refusals.bound()
        return info

    def _fell(self, by_learner: bool, info: dict[str, Any]) -> bool:
        """Tell the guard; after a fall the learner has the released weights."""
        if not info["measured"]:
            self.guard.unmeasured()
            return False
        fell = self.guard.note(by_learner, info["added_usd_per_hour"])
        if fell:
            self.begin_anew()
        return fell

    def _now(self) -> tuple[Observation, BoolArray]:
        if self._seen is None:
            self._seen, _ = self.live.reset()
        return self._seen, self.live.action_masks()

    def _as_released(self, observation: Observation, mask: BoolArray) -> int:
        values = self.released.rate(Encoding(observation["nodes"], observation["pod"]), mask)
        allowed = usable(torch.from_numpy(observation["nodes"][None]), torch.from_numpy(mask[None]))[0].numpy()
        return int(np.argmax(np.where(allowed, values, -np.inf)))

    def _explored(self, observation: Observation, mask: BoolArray) -> Placement:
        """A draw among the learner's best few nodes, closer to the best than its odds say."""
        seen = self.released.clipped(Encoding(observation["nodes"], observation["pod"]))
        with torch.no_grad():
            batch = {"nodes": torch.from_numpy(seen.nodes[None]), "pod": torch.from_numpy(seen.pod[None])}
            judged, value = self.learner.judge(batch, torch.from_numpy(mask[None]))
        log_p: FeatureArray = judged[0].numpy()
        nodes, odds = best_few(log_p, mask, self.live_config.exploring)
        action = int(self._rng.choice(nodes, p=odds))
        drawn, own = float(odds[nodes == action][0]), float(np.exp(log_p[action]))
        return Placement(
            nodes=seen.nodes,
            pod=seen.pod,
            mask=mask,
            log_p=log_p,
            value=float(value[0]),
            action=action,
            weight=1.0 / max(drawn, own),  # a node that is drawn less often than it should be counts no more for it
        )


def best_few(log_p: FeatureArray, mask: BoolArray, exploring: Exploring) -> tuple[IntArray, FloatArray]:
    """The likeliest candidates, best first, and the odds with which each is drawn."""
    few = min(exploring.top, int(mask.sum()))
    nodes = np.argsort(np.where(mask, -log_p, np.inf), kind="stable")[:few]
    logits = log_p[nodes].astype(np.float64) / exploring.temperature
    odds = np.exp(logits - logits.max())
    return nodes, odds / odds.sum()


def lesson_of(made: Sequence[Placement]) -> Lesson:
    """How good each placement was beside what the critic expected; nothing is known of the nodes not taken."""
    gain, value = (np.array([getattr(each, name) for each in made]) for name in ("gain", "value"))
    beyond = gain - value - (gain - value).mean()
    beyond = np.clip(beyond / max(float(beyond.std()), 1e-12), -LIMIT, LIMIT)
    arrays = {name: np.stack([getattr(each, name) for each in made]) for name in ("nodes", "pod", "mask", "log_p")}
    rows, action = np.arange(len(made)), [each.action for each in made]
    advantages = np.zeros(arrays["mask"].shape, dtype=np.float32)
    advantages[rows, action] = beyond * [each.weight for each in made]
    return Lesson(Placements(**arrays), advantages, gain, rows)
