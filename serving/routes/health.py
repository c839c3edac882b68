"""Liveness, readiness and metrics."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from serving.observability import CONTENT_TYPE
from serving.routes.http import error_reply, json_reply
from serving.sidecar import Sidecar, TheSidecar

router = APIRouter()


@router.get("/healthz")
async def healthz() -> Response:
    """The process answers. Nothing else: restarting it would not bring the cluster's state back."""
    return json_reply({"status": "ok"})


@router.get("/readyz")
async def readyz(sidecar: TheSidecar) -> Response:
    """There is a state of the cluster, and it is not too old to decide by."""
    snapshot = sidecar.source.snapshot()
    if snapshot is None:
        return _not_ready("the state of the cluster is not known yet", sidecar)
    age_s = sidecar.decider.clock() - snapshot.taken_at_s
    limit_s = sidecar.settings.server.ready_within_s
    if age_s > limit_s:
        return _not_ready(f"the state of the cluster is {age_s:.1f} s old, more than {limit_s:g} s", sidecar)
    return json_reply({"status": "ready", "nodes": len(snapshot.nodes), "age_s": age_s})


def _not_ready(what: str, sidecar: Sidecar) -> Response:
    return error_reply(503, "; ".join((what, *sidecar.source.problems())))


@router.get("/metrics")
async def metrics(sidecar: TheSidecar) -> Response:
    """Prometheus text format."""
    return Response(sidecar.metrics.exposition(), media_type=CONTENT_TYPE)
