"""``POST /v1/score``: which node is best for this pod?"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from serving.routes.described import POD_OR_REQUIREMENTS, SCORES, body_of, replies
from serving.routes.http import json_reply, read_body
from serving.sidecar import TheSidecar, TheSnapshot
from serving.wire.objects import parse_object
from serving.wire.score import asked_nodes, from_decision, to_score_request

router = APIRouter()

REQUEST: dict[str, Any] = {
    **POD_OR_REQUIREMENTS,
    "assume": {"type": "boolean", "default": True, "description": "count a pod with a UID on its best node"},
}


@router.post("/v1/score", openapi_extra=body_of(REQUEST), responses=replies(SCORES, 400, 413, 503))
async def score(request: Request, sidecar: TheSidecar, snapshot: TheSnapshot) -> Response:
    """Score the nodes for one pod, best first."""
    server = sidecar.settings.server
    wanted = to_score_request(
        parse_object(await read_body(request.scope, request.receive, server.max_body_bytes)), server.max_nodes
    )
    decision = sidecar.decider.decide(snapshot, wanted.pod, asked_nodes(wanted, snapshot), wanted.assume)
    return json_reply(from_decision(decision, wanted.warnings, sidecar.settings.ladder.deadline_ms))
