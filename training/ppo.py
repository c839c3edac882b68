"""MaskablePPO that learns from whole episodes of groups, with time for a discount and a pod's own account for credit.

stable-baselines3 collects a fixed number of steps and discounts them by one number. Here an update plays every
scenario's tapes to their end, each by a group of clusters, and judges a decision by what it made of its pod compared
with what the rest of the group made of the same pod (training.advantages). The update is PPO's clipped one, but over
all nodes of a decision; of MaskablePPO remain the loop of `learn`, the schedule of the learning rate and the log.

All randomness of an update comes from the seed and its number, so a run that was interrupted goes on as if it had not.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from agent.cluster import BoolArray, FloatArray, IntArray
from agent.errors import InputError
from agent.features import FeatureArray
from envs.workloads import tape as tapes
from envs.workloads.scenario import Scenario
from envs.workloads.synthetic import make_tape, sizes_of
from envs.workloads.tape import Tape
from models.policy import ScorerPolicy, sampled
from training.advantages import beyond_group, occurrence, spread_of, time_discounted, without_favour, worth_learning
from training.config import TrainConfig
from training.episode_buffer import Batch, EpisodeBuffer, Lesson
from training.group_episodes import Choice, Decisions, play_episodes
from training.group_tapes import TapeMaker
from training.vec_env import BatchVecEnv

MOST_PODS = 1 << 20  # on a tape: for keys
MOST_TRIES = 64  # of one pod
HOURS_PER_DISCOUNT = 12.0  # dollars are counted in what the cluster costs in five minutes


@dataclass(frozen=True, slots=True)
class TrainingWorld:
    """A scenario to learn in; ``usd_per_hour`` is what it usually costs, so that all count alike."""

    scenario: Scenario
    groups: int
    usd_per_hour: float
    make: TapeMaker = make_tape
    own_account: bool = True  # a decision is judged by its own pod's dollars; else by the cluster's
    own_head_decisions: int = 0  # for the search of a head of its own (training.head_search)
    head_scenario: Scenario | None = None  # in which that head is searched for; None: in this one
    head_from: str | None = None  # the scenario whose own head that search starts from

    def of_its_head(self) -> TrainingWorld:
        return replace(self, scenario=self.head_scenario or self.scenario)


class EpisodicPPO(MaskablePPO):
    """``learn`` as ever; ``updates`` counts what was learned from."""

    def __init__(
        self,
        worlds: list[TrainingWorld],
        config: TrainConfig,
        priors: FloatArray | None,
        env: VecEnv | None = None,
    ) -> None:
        """``env`` only says what observations and actions look like; without one the first world does."""
        learning, network = config.learning, config.network
        self.worlds, self.config, self.updates = worlds, config, 0
        torch.set_num_threads(config.threads)
        super().__init__(
            ScorerPolicy,
            env or BatchVecEnv(worlds[0].scenario, clusters=1, seed=config.seed, threads=1, make=worlds[0].make),
            learning_rate=lambda left: learning.last_rate + left * (learning.first_rate - learning.last_rate),
            n_steps=2,  # for a buffer that is not used
            batch_size=learning.batch_size,
            n_epochs=learning.epochs,
            clip_range=learning.clip_range,
            normalize_advantage=False,  # by scenario, not by batch
            ent_coef=learning.entropy,
            vf_coef=learning.critic_weight,
            max_grad_norm=learning.gradient_limit,
            target_kl=learning.target_kl,
            policy_kwargs={"hidden": network.hidden, "priors": priors, "sharpness": network.sharpness},
            seed=config.seed,
            device="cpu",
        )
        self.scorer = deepcopy(self.learner.scorer)  # a running mean of the network: what is evaluated and released
        self.lessons = EpisodeBuffer()
        self.rollout_buffer = self.lessons  # type: ignore[assignment]

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: RolloutBuffer,
        n_rollout_steps: int,
        use_masking: bool = True,
    ) -> bool:
        """Play every world's next tapes, and judge what was done."""
        callback.on_rollout_start()
        self.policy.set_training_mode(False)
        torch.manual_seed(self._number(0))
        lessons = []
        for world in self.worlds:
            made = self._played(world)
            lessons.append(lesson_of(made, world, self.config))
            self.num_timesteps += len(made.action)
            callback.update_locals(locals())
            if not callback.on_step():
                return False
        self.lessons.fill(lessons, seed=self._number(1))
        self.updates += 1
        callback.on_rollout_end()
        return True

    def act(self, nodes: FeatureArray, pod: FeatureArray, mask: BoolArray) -> Choice:
        """Some decisions at random, as likely as the policy finds them good; the others as it would be served.

        So the cluster in which a choice shows its worth is much like the one that the served policy makes.
        """
        with torch.no_grad():
            observation = {"nodes": torch.from_numpy(nodes), "pod": torch.from_numpy(pod)}
            log_p, values = self.learner.judge(observation, torch.from_numpy(mask))
            explored = torch.rand(len(log_p)) < self.config.credit.explored
            actions = torch.where(explored, sampled(log_p), log_p.argmax(dim=-1))
        return Choice(actions.numpy(), values.double().numpy(), log_p.numpy(), explored.numpy())

    @property
    def learner(self) -> ScorerPolicy:
        assert isinstance(self.policy, ScorerPolicy)
        return self.policy

    def train(self) -> None:
        """PPO's update over all nodes of a decision, not only the one that was taken: the account knows them all."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        notes: dict[str, list[float]] = {"gain": [], "entropy": [], "critic_error": [], "kl": []}
        for batch in (
            batch for _ in range(self.n_epochs) for batch in self.lessons.get(self.config.learning.batch_size)
        ):
            terms = self._terms(batch)
            for name, value in terms.items():
                notes[name].append(float(value.detach()))
            if self.target_kl is not None and notes["kl"][-1] > self.target_kl:
                break
            loss = self.vf_coef * terms["critic_error"] - terms["gain"] - self.ent_coef * terms["entropy"]
            self.policy.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
        for name, values in notes.items():
            self.logger.record(f"train/{name}", float(np.mean(values)))
        self._renew()

    def _terms(self, batch: Batch) -> dict[str, Tensor]:
        """The parts of the loss."""
        log_p, values = self.learner.judge({"nodes": batch.nodes, "pod": batch.pod}, batch.mask)
        before = batch.log_p.exp()
        ratio = torch.exp(log_p - batch.log_p)
        clip = self.config.learning.clip_range
        surrogate = torch.min(ratio * batch.advantages, ratio.clamp(1.0 - clip, 1.0 + clip) * batch.advantages)
        return {
            "gain": (before * surrogate).sum(dim=-1).mean(),
            "entropy": -(log_p.exp() * log_p).sum(dim=-1).mean(),
            "critic_error": torch.nn.functional.mse_loss(values, batch.returns),
            "kl": (before * (batch.log_p - log_p)).sum(dim=-1).mean(),
        }

    def _renew(self) -> None:
        """The running mean of the network follows."""
        for name, weights in self.policy.named_parameters():
            if not bool(torch.isfinite(weights).all()):
                raise InputError(f"{name} is not finite after update {self.updates}: it diverged, lower first_rate")
        with torch.no_grad():
            for steady, now in zip(self.scorer.parameters(), self.learner.scorer.parameters(), strict=True):
                steady.lerp_(now, self.config.learning.renewal)

    def _played(self, world: TrainingWorld) -> Decisions:
        first = self.updates * world.groups
        tape = make_stack(world, self.config.seed, range(first, first + world.groups))
        return play_episodes(self.act, tape, self.config.credit.group_size, world.own_account, self.config.threads)

    def _number(self, purpose: int) -> int:
        sequence = np.random.SeedSequence((self.config.seed, self.updates, purpose))
        return int(sequence.generate_state(1)[0])

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "worlds", "lessons", "scorer"]


def make_stack(world: TrainingWorld, seed: int, numbers: range) -> Tape:
    made = [world.make(world.scenario, seed, number) for number in numbers]
    return tapes.stack(made, sizes_of(world.scenario))


def lesson_of(made: Decisions, world: TrainingWorld, config: TrainConfig) -> Lesson:
    """How good every node would have been: the pod's own account of it, and the cluster's of the one it went to."""
    credit = config.credit
    per_usd = HOURS_PER_DISCOUNT / world.usd_per_hour
    shared = time_discounted(
        -made.cost_usd * per_usd,
        made.value,
        made.last_value,
        made.elapsed_s,
        made.active,
        credit.discount_s,
        credit.trace_s,
    )
    key = _same_pod(made)
    own = np.where(made.mask, made.own_usd * per_usd, 0.0)
    probability = np.exp(made.log_p, dtype=np.float64)
    own = without_favour(own, probability, made.bound, made.explored, key)
    advantages = (own * probability).sum(axis=1, keepdims=True) - own
    beyond = np.where(made.explored, beyond_group(shared[made.step, made.cluster], key), 0.0)
    spread = spread_of(advantages, probability, beyond)
    advantages = np.clip(advantages / spread, -credit.limit, credit.limit)
    worth = worth_learning(advantages, beyond / spread, probability, credit.least)
    # All nodes are weighed by their probability: what only one drawn node shows, stands for those not drawn too.
    rows = np.arange(len(own))
    drawn = np.clip(beyond / spread, -credit.limit, credit.limit) / probability[rows, made.action]
    advantages[rows, made.action] += drawn
    returns = (shared + made.value)[made.step, made.cluster]
    return Lesson(made, advantages.astype(np.float32), returns, worth)


def _same_pod(made: Decisions) -> IntArray:
    """Equal for the members of a group that decide about the same pod, for the same time."""
    tries = occurrence(made.cluster * MOST_PODS + made.pod_index)
    return np.asarray((made.tape * MOST_PODS + made.pod_index) * MOST_TRIES + np.minimum(tries, MOST_TRIES - 1))
