"""Bodies of bounded size in, JSON bytes out."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import HTTPException
from fastapi.responses import Response
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

JSON = "application/json"


async def read_body(scope: Scope, receive: Receive, max_bytes: int) -> bytes:
    """The body, refused with 413 as soon as it is known to be too long: it is never held in memory."""
    declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    if declared.isdigit() and int(declared) > max_bytes:
        raise _too_long(max_bytes)
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part, more = message.get("body", b""), message.get("more_body", False)
        if len(body) + len(part) > max_bytes:
            raise _too_long(max_bytes)
        body = body + part if body else part
    return body


def _too_long(max_bytes: int) -> HTTPException:
    return HTTPException(413, f"the body is longer than {max_bytes} bytes")


def json_reply(content: Any, code: int = 200) -> Response:
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), code, media_type=JSON)


def error_reply(code: int, message: str) -> Response:
    return Response(error_body(message), code, media_type=JSON)


def error_body(message: str) -> bytes:
    return orjson.dumps({"error": message})
