"""How long a process takes to leave, on a machine that may be busy with other things."""

from __future__ import annotations

import time
from pathlib import Path

WITHIN_S = 2.0  # of a SIGTERM
GIVEN_UP_S = 30.0
NANOSECONDS = 1e9


def seconds_to_leave(pid: int) -> float:
    """From now until it is gone, without the time in which it was ready to run and others had the processor."""
    began_s = time.monotonic()
    waited_s = first_wait_s = _waited_s(pid)
    while _is_there(pid):
        waited_s = max(waited_s, _waited_s(pid))
        assert time.monotonic() < began_s + GIVEN_UP_S, "it never leaves"
        time.sleep(0.01)
    return time.monotonic() - began_s - (waited_s - first_wait_s)


def _waited_s(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / NANOSECONDS
    except (OSError, IndexError):
        return 0.0


def _is_there(pid: int) -> bool:
    """A zombie is gone: its parent has yet to hear of it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
