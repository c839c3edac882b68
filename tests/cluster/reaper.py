"""Kills what a test run has left behind, however the run ended.

The harness starts this program once and tells it, one line each on its standard input, which processes it has started
and which folder to remove. A run that is killed by SIGKILL can do nothing more, but its end of the pipe closes: then
everything that was named is killed. It keeps a pidfd and not a number of each: a number used again kills nobody.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys


def reap() -> None:
    watched: list[int] = []
    folders: list[str] = []
    for line in sys.stdin:
        verb, _, what = line.strip().partition(" ")
        if verb == "remove":
            folders.append(what)
        else:
            watched += _open(int(what))
    for pidfd in watched:
        _kill(pidfd)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _open(pid: int) -> list[int]:
    try:
        return [os.pidfd_open(pid)]
    except ProcessLookupError:  # over already
        return []


def _kill(pidfd: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    reap()
