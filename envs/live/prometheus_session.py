"""An HTTP session that gives up in time: no redirects, no retries, no proxies, a bound on bytes and on seconds.

A timeout of requests is for each read: a server that sends a byte now and then is never late. Here the whole reply
has one deadline. Importing this loads requests, so it is imported only where a question is asked.
"""

from __future__ import annotations

import time
from typing import Any

import orjson
import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

CHUNK_BYTES = 1 << 16
SHORTEST_S = 0.001
NEVER = Retry(0, read=False)  # the next round is the retry; ``False`` keeps a timeout recognisable as one


class ReplyTooLong(requests.RequestException):
    """More bytes or more time than one reply may take."""


class Reply(requests.Response):
    """A reply that was read to its end; orjson parses it, because requests for scores wait while Python does."""

    def __init__(self, response: requests.Response, body: bytes) -> None:
        super().__init__()
        self.status_code = response.status_code
        self.url = response.url
        self._body = body

    @property
    def content(self) -> bytes:
        return self._body

    def json(self, **_: Any) -> Any:
        return orjson.loads(self._body)


class BoundedSession(requests.Session):
    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self.max_bytes = max_bytes
        self.ends_at_s = float("inf")  # of time.monotonic, for the request to come
        self.trust_env = False  # the address in the settings is asked, and no proxy or .netrc of the machine
        self.max_redirects = 0
        for scheme in ("http://", "https://"):
            self.mount(scheme, HTTPAdapter(max_retries=NEVER, pool_connections=1, pool_maxsize=1))

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        left_s = max(self.ends_at_s - time.monotonic(), SHORTEST_S)
        options |= {"stream": True, "timeout": min(options.get("timeout") or left_s, left_s)}
        response = super().send(request, **options)
        try:
            return Reply(response, self._body(response.raw))
        except BaseException:
            response.close()
            raise

    def _body(self, raw: Any) -> bytes:
        body = bytearray()
        while chunk := raw.read1(CHUNK_BYTES, decode_content=True):
            body += chunk
            if len(body) > self.max_bytes:
                raise ReplyTooLong(f"the reply is longer than {self.max_bytes} bytes")
            if time.monotonic() > self.ends_at_s:
                raise ReplyTooLong("the reply takes too long")
        return bytes(body)
