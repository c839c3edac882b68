"""The models in use, as facts for people."""

from __future__ import annotations

from typing import Any

from agent.features import SCHEMA_VERSION
from models.manifest import Manifest
from serving.policy import Policy


def from_policy(policy: Policy) -> dict[str, Any]:
    return {
        "models": [_from_manifest(model.manifest) for model in policy.models],
        "problems": list(policy.problems),
        "schema_version": SCHEMA_VERSION,
    }


def _from_manifest(manifest: Manifest) -> dict[str, Any]:
    """Without the ranges of the features: they are long, and in the folder."""
    facts = manifest.model_dump(mode="json", exclude={"node_features", "pod_features"})
    return {"label": manifest.label, **facts}
