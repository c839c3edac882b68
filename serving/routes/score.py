"""``POST /v1/score``: which node is best for this pod?"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from serving.routes.http import json_reply, read_body
from serving.sidecar import TheSidecar, TheSnapshot
from serving.wire.pod import REQUIREMENTS
from serving.wire.score import asked_nodes, from_decision, parse_object, to_score_request

router = APIRouter()

# Read by hand instead of by pydantic, which would cost more than the scoring; so described by hand, too.
REQUEST_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "pod": {"type": "object", "description": "a pod as the Kubernetes API writes it"},
        "requirements": {"type": "object", "properties": {name: {} for name in REQUIREMENTS}},
        "nodes": {"type": "array", "items": {"type": "string"}, "description": "names; all nodes if absent"},
        "assume": {"type": "boolean", "default": True, "description": "count a pod with a UID on its best node"},
    },
}


@router.post("/v1/score", openapi_extra={"requestBody": {"content": {"application/json": {"schema": REQUEST_SCHEMA}}}})
async def score(request: Request, sidecar: TheSidecar, snapshot: TheSnapshot) -> Response:
    """Score the nodes for one pod, best first."""
    server = sidecar.settings.server
    wanted = to_score_request(parse_object(await read_body(request, server.max_body_bytes)), server.max_nodes)
    decision = sidecar.decider.decide(snapshot, wanted.pod, asked_nodes(wanted, snapshot), wanted.assume)
    return json_reply(from_decision(decision, wanted.warnings, sidecar.settings.ladder.deadline_ms))
