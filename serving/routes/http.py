"""Bodies of bounded size in, JSON bytes out."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import HTTPException, Request
from fastapi.responses import Response

JSON = "application/json"


async def read_body(request: Request, max_bytes: int) -> bytes:
    """The body, refused with 413 as soon as it is known to be too long: it is never held in memory."""
    too_long = HTTPException(413, f"the body is longer than {max_bytes} bytes")
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > max_bytes:
        raise too_long
    chunks, length = [], 0
    async for chunk in request.stream():
        length += len(chunk)
        if length > max_bytes:
            raise too_long
        chunks.append(chunk)
    return b"".join(chunks)


def json_reply(content: Any, code: int = 200) -> Response:
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), code, media_type=JSON)


def error_reply(code: int, message: str) -> Response:
    return json_reply({"error": message}, code)
