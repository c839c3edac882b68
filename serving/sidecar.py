"""The parts that requests share, and how a route gets at them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, HTTPException, Request

from envs.live.snapshot import ClusterSource, Snapshot
from serving.decide import Decider
from serving.observability import Metrics
from serving.settings import Settings


@dataclass(frozen=True, slots=True)
class Sidecar:
    settings: Settings
    source: ClusterSource
    decider: Decider
    metrics: Metrics


def _sidecar(request: Request) -> Sidecar:
    sidecar: Sidecar = request.app.state.sidecar
    return sidecar


def _snapshot(request: Request) -> Snapshot:
    snapshot = _sidecar(request).source.snapshot()
    if snapshot is None:
        raise HTTPException(503, "the state of the cluster is not known yet; GET /readyz says when")
    return snapshot


TheSidecar = Annotated[Sidecar, Depends(_sidecar)]
TheSnapshot = Annotated[Snapshot, Depends(_snapshot)]
