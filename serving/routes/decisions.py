"""``GET /v1/decisions``: what was decided last, and where the pods really went."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from serving.routes.described import DECISIONS, replies
from serving.routes.http import json_reply
from serving.sidecar import TheSidecar
from serving.wire.decisions import MOST, features_of, limit_from

router = APIRouter()

Limit = Annotated[str, Query(description=f"how many, newest first; at most {MOST}")]
Uid = Annotated[str, Query(description="only those of this pod, with the features of its best and its bound node")]


@router.get("/v1/decisions", responses=replies(DECISIONS, 400))
async def decisions(sidecar: TheSidecar, limit: Limit = "50", uid: Uid = "") -> Response:
    """The newest decisions first."""
    found = sidecar.decider.decisions.last(limit_from(limit), uid)
    described: list[dict[str, Any]] = [noted.summary() for noted in found]
    if uid:
        described = [each | {"features": features_of(noted)} for each, noted in zip(described, found, strict=True)]
    return json_reply({"decisions": described})
