"""``GET /v1/model`` and ``POST /v1/model/reload``: which models answer, and reading them again."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from serving.routes.described import MODELS, replies
from serving.routes.http import error_reply, json_reply
from serving.sidecar import TheSidecar
from serving.wire.model import from_policy

router = APIRouter()


@router.get("/v1/model", responses=replies(MODELS))
async def model(sidecar: TheSidecar) -> Response:
    """The manifests of the models in use, and what is wrong with those that could not be loaded."""
    return json_reply(from_policy(sidecar.decider.policy))


@router.post("/v1/model/reload", responses=replies(MODELS, 409, 503))
async def reload(sidecar: TheSidecar) -> Response:
    """Read the model folders now; 409 if one cannot be used: the models in use then stay."""
    policy = await sidecar.slow_work.do(sidecar.models.reload)
    if policy.problems:
        return error_reply(409, f"the models stay as they were: {'; '.join(policy.problems)}")
    return json_reply(from_policy(policy))
