"""``POST /v1/explain``: why this node?"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

from envs.live.snapshot import Snapshot
from serving.decision import Decision
from serving.explaining import why
from serving.routes.described import EXPLANATION, POD_OR_REQUIREMENTS, body_of, replies
from serving.routes.http import json_reply, read_body
from serving.sidecar import Sidecar, TheSidecar, TheSnapshot
from serving.wire.explain import ExplainRequest, from_why, to_explain_request
from serving.wire.objects import parse_object
from serving.wire.score import asked_nodes

router = APIRouter()

REQUEST: dict[str, Any] = {
    **POD_OR_REQUIREMENTS,
    "uid": {"type": "string", "description": "instead of a pod: the newest decision about this one"},
    "node": {"type": "string", "description": "the node to explain; the best one if absent"},
}


@router.post("/v1/explain", openapi_extra=body_of(REQUEST), responses=replies(EXPLANATION, 400, 404, 413, 503))
async def explain(request: Request, sidecar: TheSidecar, snapshot: TheSnapshot) -> Response:
    """What moved a node's score away from that of an average candidate; nothing is assumed or counted."""
    server = sidecar.settings.server
    wanted = to_explain_request(
        parse_object(await read_body(request.scope, request.receive, server.max_body_bytes)), server.max_nodes
    )

    def work() -> dict[str, Any]:
        decision, bound = _decision(wanted, sidecar, snapshot)
        return from_why(decision, why(decision, sidecar.decider.ladder, wanted.node), bound)

    return json_reply(await sidecar.slow_work.do(work))


def _decision(wanted: ExplainRequest, sidecar: Sidecar, snapshot: Snapshot) -> tuple[Decision, str | None]:
    if wanted.question is not None:
        question = wanted.question
        return sidecar.decider.consider(snapshot, question.pod, asked_nodes(question, snapshot)), None
    noted, shown = sidecar.decider.decisions.newest_of(wanted.uid), repr(wanted.uid[:80])
    if noted is None:
        raise HTTPException(404, f"no decision about pod {shown} is remembered; GET /v1/decisions lists those that are")
    decision = noted.decision
    if decision is None:
        raise HTTPException(404, f"the decision about pod {shown} is too old to explain; ask with the pod itself")
    return decision, noted.bound
