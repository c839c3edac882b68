"""What a released model says about itself, checked before anybody trusts it.

A model is a folder: ``policy.onnx``, ``manifest.json`` and a MODEL_CARD.md made from the manifest. The manifest names
the exact bytes of the model, the feature schema it was made for, what each feature looked like in training, and how
the model was trained and how it compared. A folder that does not fit together is refused with one line that names the
file, what is wrong with it and what to do: a model that is a little wrong places pods badly and says nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from agent.errors import InputError
from agent.features import NODE_FEATURES, POD_FEATURES, SCHEMA_VERSION

MODEL_FILE = "policy.onnx"
MANIFEST_FILE = "manifest.json"
CARD_FILE = "MODEL_CARD.md"

RELEASED = Path(__file__).parent / "released"  # what the wheel ships, by kind
Kind = Literal["default", "gpu"]

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
WORLD = ("scenario_digest", "generator_version", "weights_digest")  # costs compare only where all of these are equal


class Facts(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class FeatureRange(Facts):
    """What a feature was in training: values are clipped to min and max, the guard counts those off low and high."""

    min: float
    low: float = Field(description="0.1 percentile")
    high: float = Field(description="99.9 percentile")
    max: float

    @model_validator(mode="after")
    def in_order(self) -> FeatureRange:
        if not self.min <= self.low <= self.high <= self.max:
            raise ValueError(f"min {self.min:g}, low {self.low:g}, high {self.high:g}, max {self.max:g} must not fall")
        return self


class TrainingFacts(Facts):
    """Where the weights come from."""

    config_digest: str
    scenarios: dict[str, str] = Field(min_length=1, description="digest of each scenario, by name")
    generator_version: int
    weights_digest: str = Field(description="of the cost weights")
    seeds: tuple[int, ...]
    decisions: int = Field(ge=0)
    minutes: float = Field(ge=0)


class EvaluationRow(Facts):
    """One scenario on held-out seeds: the model against the best of the others, on the same arrivals."""

    scenario: str
    episodes: int = Field(ge=1)
    seed: int
    cost_usd_per_hour: float
    best_other: str
    best_other_usd_per_hour: float
    difference_percent: float = Field(description="of the best other's cost; below 0 the model is cheaper")
    ci95_percent: tuple[float, float] = Field(description="of the paired difference")
    answered_share: float | None = Field(None, ge=0, le=1, description="decisions that the policy itself took")
    scenario_digest: str | None = None
    generator_version: int | None = Field(None, description="like both digests null in rows older than these keys")
    weights_digest: str | None = Field(None, description="of the cost weights")


class Manifest(Facts):
    schema_version: int = SCHEMA_VERSION
    kind: Kind
    created: date
    sha256: Sha256 = Field(description=f"of {MODEL_FILE}")
    node_features: dict[str, FeatureRange]
    pod_features: dict[str, FeatureRange]
    training: TrainingFacts
    versions: dict[str, str] = Field(description="libraries that made it")
    evaluation: tuple[EvaluationRow, ...] = ()

    @property
    def label(self) -> str:
        """Names the model in logs and replies."""
        return f"{self.kind}@{self.sha256[:12]}"

    @field_validator("node_features")
    @classmethod
    def every_node_feature(cls, ranges: dict[str, FeatureRange]) -> dict[str, FeatureRange]:
        return _complete(ranges, NODE_FEATURES)

    @field_validator("pod_features")
    @classmethod
    def every_pod_feature(cls, ranges: dict[str, FeatureRange]) -> dict[str, FeatureRange]:
        return _complete(ranges, POD_FEATURES)


def _complete(ranges: dict[str, FeatureRange], names: Iterable[str]) -> dict[str, FeatureRange]:
    wrong = sorted(set(names) ^ set(ranges))
    if wrong:
        raise ValueError(f"features differ from the schema's: {', '.join(wrong)}")
    return ranges


def same_world(result: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Whether a result is of the world of these facts; one that does not say so is not."""
    return all(result.get(key) == facts[key] for key in WORLD)


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read_model(folder: Path) -> tuple[Manifest, bytes]:
    """The manifest and the very bytes of the model that it names."""
    manifest = read_manifest(folder)
    path = folder / MODEL_FILE
    model = _read(path)
    digest = sha256_of(model)
    if digest != manifest.sha256:
        raise InputError(
            f"{path}: sha256 is {digest[:12]}..., the manifest says {manifest.sha256[:12]}...: the file is cut short or"
            " was changed; copy the whole folder again or export the model again"
        )
    return manifest, model


def read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST_FILE
    if not folder.is_dir():
        raise InputError(f"{folder}: no such model folder; name one that holds {MANIFEST_FILE} and {MODEL_FILE}")
    text = _read(path)
    _refuse_other_schema(path, _parsed(path, text))
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as why:
        problems = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in why.errors()[:3])
        raise InputError(f"{path}: {problems}; export the model again") from why


def write_manifest(manifest: Manifest, folder: Path) -> None:
    write_beside(folder / MANIFEST_FILE, (manifest.model_dump_json(indent=1) + "\n").encode())


def write_beside(path: Path, content: bytes) -> None:
    """Write under another name, then rename: nobody ever reads half a file."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as why:
        raise InputError(
            f"{path}: {why.strerror}; a model folder holds {MANIFEST_FILE} and {MODEL_FILE}: copy both"
        ) from why


def _parsed(path: Path, text: bytes) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as why:
        raise InputError(f"{path}: not JSON ({why}): the file is cut short or was changed; copy it again") from why
    if not isinstance(content, dict):
        raise InputError(f"{path}: must be a JSON object; export the model again")
    return content


def _refuse_other_schema(path: Path, content: dict[str, Any]) -> None:
    """Looked at before all else: a manifest of another version may well have other keys."""
    version = content.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{path}: schema_version is {version!r}, this Pilotfish reads {SCHEMA_VERSION}: use the model that came"
            " with this version, or train and export again"
        )
