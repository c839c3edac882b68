"""``GET /v1/state``: what the sidecar knows, for people."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from serving.routes.http import json_reply
from serving.sidecar import TheSidecar, TheSnapshot
from serving.wire.state import from_snapshot

router = APIRouter()


@router.get("/v1/state")
async def state(sidecar: TheSidecar, snapshot: TheSnapshot) -> Response:
    """Every node with its figures and their ages."""
    decider = sidecar.decider
    described = from_snapshot(snapshot, decider.ladder, decider.policy, len(decider.assumed), decider.clock())
    live = sidecar.live
    described["settings"] = {"problem": live.problem or None, "need_restart": live.waiting}
    described["problems"] = sidecar.source.problems()
    return json_reply(described)
