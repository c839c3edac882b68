"""How a policy is fine-tuned on a real cluster: one YAML file, every field explained, unknown keys refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from agent.errors import InputError
from envs.live.cluster_settings import ClusterSettings
from envs.live.prometheus_settings import PrometheusSettings
from envs.live_env import SCHEDULER_NAME
from training.config import FIRST_HELD_OUT_SEED, FOLDER, Learning, Part, Positive, Share, read_yaml, validated

LIVE = "live"  # its configuration in training/configs

# An examination's intervals take the mean of the costs for normal, and costs of episodes are skewed: a few dear ones
# make most of it. Over fewer episodes chance looks sure, and nothing is released.
LEAST_EPISODES = 100


class Exploring(Part):
    """How far the policy that learns may stray from its own first choice."""

    top: int = Field(3, ge=2, description="it draws among its best so many nodes only")
    temperature: Share = Field(0.5, description="of the draw; below 1 it keeps closer to the best than its odds say")


class Safety(Part):
    """When the released policy takes over (training/live_guard.py)."""

    control_every: int = Field(4, ge=2, description="one pod in so many is placed by the released policy, to compare")
    window: int = Field(32, ge=4, description="last pods in which the two are compared, and pods of a recovery")
    least: int = Field(5, ge=2, description="pods of each among them before anything is said")
    rise: float = Field(0.1, ge=0.0, description="the learner may cost so much more, as a share of the released one's")
    certainty: float = Field(3.0, ge=0.0, description="and the difference so many standard errors")
    most_falls: int = Field(2, ge=1, description="after so many the released policy places all that is left")


class Examination(Part):
    """What the candidate must win."""

    scenarios: list[str] = Field(min_length=1, description="worlds in which it plays against the released one")
    episodes: int = Field(LEAST_EPISODES, ge=2, description="of each, the same for both")
    seed: int = Field(FIRST_HELD_OUT_SEED, ge=FIRST_HELD_OUT_SEED, description="of them; training never uses these")


class LiveConfig(Part):
    """A run of ``pilotfish train --live``."""

    scheduler_name: str = Field(SCHEDULER_NAME, min_length=1, description="`schedulerName` of the pods that are placed")
    cluster: ClusterSettings = Field(ClusterSettings(), description="how the API server is reached, as in settings.md")
    prometheus: PrometheusSettings = Field(PrometheusSettings(), description="who measures, as in settings.md")
    max_nodes: int = Field(100, ge=1, description="a larger cluster is refused")
    settle_s: Positive | None = Field(None, description="metrics so long after the binding; null: the rates' window")
    metrics_within_s: Positive = Field(60.0, description="patience with them, beyond that")
    arrival_within_s: Positive = Field(300.0, description="no pod for so long ends the run")
    pods_per_update: Annotated[int, Field(ge=2)] = Field(16, description="placements between two updates")
    seed: int = Field(1, ge=0, description="of the draws among nodes")
    exploring: Exploring = Exploring()
    safety: Safety = Safety()
    exam: Examination
    learning: Learning

    def digest(self) -> str:
        """Of what is learned from and how; not of where the cluster is."""
        content = self.model_dump(mode="json", exclude={"cluster", "prometheus"})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def load_live_config(name: str, **groups: dict[str, Any]) -> LiveConfig:
    """A YAML file, or ``live``, the one that comes along; options of the command line go on top of their group."""
    path = FOLDER / f"{LIVE}.yaml" if name == LIVE else Path(name)
    if not path.is_file():
        raise InputError(f"unknown configuration {name!r}; choose {LIVE}, or a .yaml file")
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise InputError(f"{path}: must hold the fields of docs/live_training.md")
    for group, options in groups.items():
        content[group] = {**(content.get(group) or {}), **options}
    return parse_live_config(content, str(path))


def parse_live_config(content: Any, origin: str) -> LiveConfig:
    return validated(LiveConfig, content, origin)
