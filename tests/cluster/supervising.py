"""Starts again what ends, as a kubelet does, so that no test has to."""

from __future__ import annotations

import threading
import time

from tests.cluster.processes import Daemon, Processes

LOOK_EVERY_S = 0.05


class Kept:
    """A program that runs again soon after it ends, however it ends."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.not_before_s = 0.0

    def kill(self, down_s: float = 0.0) -> None:
        """No goodbye, and nobody starts it again for so long."""
        self.not_before_s = time.monotonic() + down_s
        self.daemon.kill()


class Supervisor:
    """Looks after its programs from ``start`` to ``stop``."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._kept: list[Kept] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    def keep(self, daemon: Daemon) -> Kept:
        self._kept.append(Kept(daemon))
        return self._kept[-1]

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Before the programs are stopped: it would take their end for a fault."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_EVERY_S):
            for kept in self._kept:
                if kept.daemon.process.poll() is not None and time.monotonic() >= kept.not_before_s:
                    kept.daemon = self._processes.start_again(kept.daemon)
