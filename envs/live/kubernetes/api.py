"""Requests to the API server: raw JSON, bounded in time and size, one clear error for whatever goes wrong."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec
import urllib3
from urllib3.connection import HTTPConnection

from envs.live.kubernetes.access import Access
from envs.live.kubernetes.shapes import status_of

Params = Mapping[str, str]
T = TypeVar("T")

CONNECT_WITHIN_S = 5.0
SILENT_FOR_S = 15.0  # then the kernel asks whether the other side still lives
READ_BYTES = 65_536
MAX_ERROR_BYTES = 65_536
GATHER_S = 0.05  # news of a watch; the state of the cluster is published every 0.1 s
WAITED_S = 0.0002  # longer, and nothing was there to be read yet
MAX_LINE_BYTES = 8 * 2**20  # etcd holds no object above 1.5 MB

# A peer that vanished without a word is found out in half a minute, however quiet the watch is.
_KEEP_ALIVE = [
    *HTTPConnection.default_socket_options,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, int(SILENT_FOR_S)),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
]


class ApiError(Exception):
    """The API server could not be asked, or refused; the message says why, ``code`` is the HTTP status or 0."""

    def __init__(self, message: str, code: int = 0, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after_s = retry_after_s


class TooLarge(ApiError):
    """The answer is longer than we are willing to hold."""


class ApiServer:
    """Safe to use from several threads."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._pool = _pool(access)
        self._open: set[urllib3.BaseHTTPResponse] = set()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"ApiServer({self._access.url})"

    def get(
        self,
        path: str,
        params: Params,
        within_s: float,
        max_bytes: int,
        decode: Callable[[bytes], T] = msgspec.json.decode,
    ) -> T:
        """One JSON answer."""
        with self._response("GET", path, params, within_s) as response:
            return _decoded(b"".join(_chunks(response, time.monotonic() + within_s, max_bytes)), decode)

    def post(self, path: str, body: Any, within_s: float, max_bytes: int = 2**20) -> Any:
        with self._response("POST", path, {}, within_s, msgspec.json.encode(body)) as response:
            return _decoded(b"".join(_chunks(response, time.monotonic() + within_s, max_bytes)), msgspec.json.decode)

    def close(self) -> None:
        """Whoever reads an answer reads no further: a watch would go on for minutes."""
        with self._lock:
            for response in self._open:
                with contextlib.suppress(ValueError, RuntimeError, OSError):  # it ends by itself just now
                    response.shutdown()
        self._pool.clear()

    @contextlib.contextmanager
    def lines(self, path: str, params: Params, within_s: float) -> Iterator[Iterator[bytes]]:
        """An answer that goes on, line by line, until the server ends it or the time is over."""
        with self._response("GET", path, params, within_s) as response:
            yield _lines(_gathered(_chunks(response, time.monotonic() + within_s, None)))

    @contextlib.contextmanager
    def _response(
        self, method: str, path: str, params: Params, within_s: float, body: bytes | None = None
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        try:
            response = self._pool.request(
                method,
                self._access.url + path,
                fields=None if body is not None else dict(params),
                body=body,
                headers=self._headers(),
                timeout=urllib3.Timeout(connect=min(CONNECT_WITHIN_S, within_s), read=within_s),
                preload_content=False,
                redirect=False,
            )
            try:
                with self._lock:
                    self._open.add(response)
                if response.status not in (200, 201):
                    raise _refusal(response)
                yield response
            finally:
                with self._lock:
                    self._open.discard(response)
                response.close()  # an answer that was not read to its end leaves no usable connection
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as why:
            raise ApiError(f"{self._access.url}: {_words(why)}") from why

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "pilotfish"}
        token = self._access.authorization()
        return headers if token is None else headers | {"Authorization": token}


def _pool(access: Access) -> urllib3.PoolManager:
    options: dict[str, Any] = {
        "retries": False,
        "maxsize": 4,  # two watches, the metrics and a binding
        "socket_options": _KEEP_ALIVE,
        "cert_reqs": "CERT_REQUIRED" if access.verify else "CERT_NONE",
        "ca_certs": access.ca_file,
        "cert_file": access.cert_file,
        "key_file": access.key_file,
    }
    if access.server_name:
        options |= {"server_hostname": access.server_name, "assert_hostname": access.server_name}
    return urllib3.ProxyManager(access.proxy, **options) if access.proxy else urllib3.PoolManager(**options)


def _chunks(response: urllib3.BaseHTTPResponse, until_s: float, max_bytes: int | None) -> Iterator[bytes]:
    """What has arrived, as it arrives: a slow trickle must not outlive the time, nor a flood the memory."""
    total = 0
    while chunk := response.read1(READ_BYTES):
        total += len(chunk)
        if max_bytes is not None and total > max_bytes:
            raise TooLarge(f"the answer is longer than {max_bytes} bytes")
        if time.monotonic() > until_s:
            raise ApiError("the answer took too long")
        yield chunk


def _gathered(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same in fewer wake-ups: after a wait for one chunk comes a pause for those that follow.

    News come in swarms, three for each pod that is scheduled, and who wakes for every one takes Python's lock from
    answers as often. In a storm there is always more to be read, and no pause.
    """
    pause_at_s = asked_at_s = time.monotonic()
    for chunk in chunks:
        now_s = time.monotonic()
        if now_s - asked_at_s > WAITED_S and now_s >= pause_at_s:
            time.sleep(GATHER_S)
            pause_at_s = time.monotonic() + GATHER_S / 10  # also where waiting for the lock looks like waiting for news
        yield chunk
        asked_at_s = time.monotonic()


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Whole lines; half a line at the end is dropped: the connection broke, and the next watch repeats it."""
    rest = bytearray()
    for chunk in chunks:
        *whole, last = chunk.split(b"\n")
        for part in whole:
            yield bytes(rest) + part
            rest.clear()
        rest += last
        if len(rest) > MAX_LINE_BYTES:
            raise TooLarge(f"a line is longer than {MAX_LINE_BYTES} bytes")


def _decoded(body: bytes, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as why:
        raise ApiError(f"the answer cannot be read: {why}") from why


def _refusal(response: urllib3.BaseHTTPResponse) -> ApiError:
    """The API server explains itself in a Status object."""
    said = response.read1(MAX_ERROR_BYTES)
    try:
        words = status_of(said).message
    except (msgspec.DecodeError, UnicodeDecodeError):
        words = said.decode("utf-8", "replace")
    wait = response.headers.get("Retry-After", "")
    return ApiError(f"{response.status}: {words[:300]}", response.status, float(wait) if wait.isdigit() else 0.0)


def _words(why: Exception) -> str:
    """urllib3 wraps the cause in a sentence about its pools."""
    reason = getattr(why, "reason", None)
    return str(reason or why)
