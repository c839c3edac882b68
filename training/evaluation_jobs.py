"""Pieces of an evaluation, one after the other here, or spread over Ray.

A piece gives the same numbers wherever it runs (training.episodes), so the answer does not depend on where, nor on how
often a worker died on the way: Ray starts a lost piece again.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from agent.errors import InputError
from training.episodes import Outcome, Piece, play_piece

logger = logging.getLogger(__name__)

LOCAL = "local"  # a Ray of this machine, for as long as the command runs
RETRIES = 5  # of a piece whose worker died
STARTS = 3
CONNECT_TIMEOUT_S = 5.0
OBJECT_STORE_BYTES = 100_000_000  # outcomes are small
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
ADVICE = f"give HOST:PORT of a Ray head, or {LOCAL}"

Done = Callable[[float], None]  # told how many pieces are done, parts of one included


def play_all(pieces: Sequence[Piece], ray_address: str | None = None, done: Done | None = None) -> list[Outcome]:
    """The outcome of every piece, in their order."""
    if ray_address is not None:
        return _over_ray(pieces, ray_address, done)
    outcomes = []
    for number, piece in enumerate(pieces):
        outcomes.append(play_piece(piece, None if done is None else _part(done, number)))
        if done is not None:
            done(number + 1)
    return outcomes


def _part(done: Done, number: int) -> Done:
    return lambda share: done(number + min(share, 1.0))


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, for as long as it is needed; who is connected already stays so."""
    import ray  # of the extra `tune`

    mine = not ray.is_initialized()
    if mine:
        _connect(ray, address)
    try:
        yield ray
    finally:
        if mine:
            ray.shutdown()


def _over_ray(pieces: Sequence[Piece], address: str, done: Done | None) -> list[Outcome]:
    with connected(address) as ray:
        play: Any = ray.remote(max_retries=RETRIES, num_cpus=1)(play_piece)
        waiting = {play.remote(piece): number for number, piece in enumerate(pieces)}
        found: dict[int, Outcome] = {}
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1)
            for reference in ready:
                found[waiting.pop(reference)] = _result(ray, reference)
            if done is not None:
                done(len(found))
        return [found[number] for number in range(len(pieces))]


def _connect(ray: Any, address: str) -> None:
    if address != LOCAL:
        _refuse_deaf(address)
    small = {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES, "num_cpus": os.cpu_count()}
    try:
        if address == LOCAL:
            _start(ray, small)
        else:
            ray.init(address=address, **QUIET)
    except Exception as why:  # Ray has no common base for its errors: some are plain Exceptions
        line = str(why).partition("\n")[0]
        raise InputError(f"--ray-address {address}: {line}; {ADVICE}") from why


def _start(ray: Any, options: dict[str, Any]) -> None:
    """Again if need be: a busy machine takes longer than the half minute that Ray grants."""
    for left in reversed(range(STARTS)):
        try:
            ray.init(address=LOCAL, **options, **QUIET)
            return
        except Exception as why:
            ray.shutdown()
            if not left:
                raise
            logger.warning("Ray did not start: %s; trying again", str(why).partition("\n")[0])


def _refuse_deaf(address: str) -> None:
    """Ray itself tries for minutes before it says that nobody is there."""
    host, _, port = address.rpartition("//")[2].partition(":")
    if not port.isdigit():
        raise InputError(f"--ray-address {address}: no port in it; {ADVICE}")
    try:
        socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S).close()
    except OSError as why:
        raise InputError(f"--ray-address {address}: {why.strerror or why}; {ADVICE}") from why


def _result(ray: Any, reference: Any) -> Outcome:
    try:
        outcome: Outcome = ray.get(reference)
    except ray.exceptions.RayTaskError as why:
        cause = why.as_instanceof_cause()
        if isinstance(cause, InputError):
            raise InputError(str(why.cause)) from why
        raise
    return outcome
