"""Bearer tokens: one a line in a file, read again when the file changes, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from collections.abc import Callable
from pathlib import Path

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from agent.errors import InputError
from serving.security.watched import stamp

logger = logging.getLogger(__name__)

SHORTEST_TOKEN = 16
LONGEST_FILE_BYTES = 65_536
LOOK_EVERY_S = 1.0
SCHEME = b"bearer "

# Probes carry no token, and learn nothing but that we are there. A browser carries none until the console's page has
# asked for one; the page is the same file for everybody.
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/", "/console"})
CONSOLE_PREFIX = "/console/"
EXTENDER_PREFIX = "/extender/"

REFUSAL = orjson.dumps({"error": "no valid token: send the header 'Authorization: Bearer TOKEN'"})
REFUSAL_HEADERS = [
    (b"content-type", b"application/json"),
    (b"content-length", str(len(REFUSAL)).encode()),
    (b"www-authenticate", b"Bearer"),
]


class TokenFile:
    """The tokens that are valid now. A file that cannot be read, or has no token, leaves those before in force."""

    def __init__(self, file: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._clock = clock
        self._stamp = stamp(file)
        self._digests = _read(file)
        self._look_at_s = clock() + LOOK_EVERY_S

    def admits(self, token: bytes) -> bool:
        if self._clock() >= self._look_at_s:
            self._look()
        given = hashlib.sha256(token).digest()
        found = False
        for digest in self._digests:  # all of them, always: the time says nothing about which one was near
            found |= hmac.compare_digest(given, digest)
        return found

    def _look(self) -> None:
        self._look_at_s = self._clock() + LOOK_EVERY_S
        now = stamp(self._file)
        if now == self._stamp:
            return
        self._stamp = now
        try:
            self._digests = _read(self._file)
        except InputError as why:
            logger.warning("%s; the tokens before stay valid", why)
        else:
            logger.info("%d tokens were read again from %s", len(self._digests), self._file)


class TokenGuard:
    """Lets no request pass without a token, but those of the probes. Plain ASGI: a request pays microseconds."""

    def __init__(self, app: ASGIApp, tokens: TokenFile, extender_needs_none: bool) -> None:
        self._app = app
        self._tokens = tokens
        self._extender_needs_none = extender_needs_none

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._is_open(scope["path"]) or self._tokens.admits(_token(scope)):
            await self._app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 401, "headers": REFUSAL_HEADERS})
        await send({"type": "http.response.body", "body": REFUSAL})

    def _is_open(self, path: str) -> bool:
        """kube-scheduler cannot send a token; where client certificates are required, it has shown one instead."""
        without_token = (CONSOLE_PREFIX, EXTENDER_PREFIX) if self._extender_needs_none else (CONSOLE_PREFIX,)
        return path in OPEN_PATHS or path.startswith(without_token)


def _token(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == b"authorization":
            credentials: bytes = value
            return credentials[len(SCHEME) :].strip() if credentials[: len(SCHEME)].lower() == SCHEME else b""
    return b""


def _read(file: str) -> tuple[bytes, ...]:
    """Digests only: a token itself is not kept where a traceback or a dump could show it."""
    try:
        with Path(file).open("rb") as opened:
            content = opened.read(LONGEST_FILE_BYTES + 1)
    except OSError as why:
        raise InputError(f"cannot read the tokens in {file}: {why.strerror}") from None
    if len(content) > LONGEST_FILE_BYTES:
        raise InputError(f"the token file {file} is longer than {LONGEST_FILE_BYTES} bytes: one token a line")
    tokens = [line.strip() for line in content.splitlines()]
    tokens = [token for token in tokens if token and not token.startswith(b"#")]
    if not tokens or min(map(len, tokens)) < SHORTEST_TOKEN:
        raise InputError(f"the token file {file} needs one token a line, each of at least {SHORTEST_TOKEN} characters")
    return tuple(hashlib.sha256(token).digest() for token in tokens)
