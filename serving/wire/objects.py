"""JSON objects out of bytes that somebody sent."""

from __future__ import annotations

import orjson

from agent.errors import InputError
from envs.live.fields import Json


def parse_object(sent: bytes, called: str = "the body") -> Json:
    try:
        content = orjson.loads(sent)
    except orjson.JSONDecodeError as why:
        raise InputError(f"{called} is not JSON: {why}") from why
    if not isinstance(content, dict):
        raise InputError(f"{called} must be a JSON object")
    return content
