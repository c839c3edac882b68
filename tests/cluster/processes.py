"""Starts programs, keeps what they write, and ends every one of them, whatever happens to the test run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

READY_WITHIN_S = 50.0  # below the limit of a test, so that the message is ours
STOP_WITHIN_S = 10.0
TAIL_LINES = 25


def heed_ctrl_c() -> None:
    """In a child before it starts: a run in the background of a shell ignores Ctrl-C, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class NotReady(Exception):
    """A program ended, or did not answer in time; the message has the end of its log."""


class Daemon:
    """One running program."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path, given: Mapping[str, str]) -> None:
        self.name = name
        self.process = process
        self.log = log
        self.environment = given  # beside what the tests themselves have
        self.ready_after_s = 0.0
        self._began_s = time.monotonic()

    def wait_until(self, ready: Callable[[], bool], within_s: float = READY_WITHIN_S) -> None:
        until_s = time.monotonic() + within_s
        while not ready():
            if self.process.poll() is not None:
                raise NotReady(f"{self.name} ended with code {self.process.returncode}; {self.tail()}")
            if time.monotonic() > until_s:
                raise NotReady(f"{self.name} was not ready within {within_s:.0f} s; {self.tail()}")
            time.sleep(0.05)
        self.ready_after_s = time.monotonic() - self._began_s

    def tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join([f"end of {self.log}:", *lines])

    def kill(self) -> None:
        """As the kernel or a kubelet out of patience does: no goodbye."""
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self.resume()
        self.process.terminate()
        try:
            self.process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()


class Processes:
    """Programs that belong together, as those of one control plane, and the folder with their logs and data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.daemons: list[Daemon] = []
        reaper = [sys.executable, str(Path(__file__).with_name("reaper.py"))]
        # A session of its own: Ctrl-C and a killed process group must not reach it before it has done its work.
        self._reaper = subprocess.Popen(reaper, stdin=subprocess.PIPE, start_new_session=True)

    def start(
        self, name: str, program: Path, options: Sequence[str], environment: Mapping[str, str] = MappingProxyType({})
    ) -> Daemon:
        log = self._new_log(name)
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(program), *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._home_of(name),
                env=os.environ | environment,
                start_new_session=True,  # Ctrl-C is for the tests, which then stop the programs in order
            )
        self._tell_reaper(f"watch {process.pid}")
        daemon = Daemon(name, process, log, environment)
        self.daemons.append(daemon)
        return daemon

    def start_again(self, ended: Daemon) -> Daemon:
        """The same program with the same options."""
        self.daemons.remove(ended)
        program, *options = (str(part) for part in ended.process.args)
        return self.start(ended.name, Path(program), options, ended.environment)

    def remove_in_the_end(self, folder: Path) -> None:
        """Data that nobody wants to read after a test run, even one that is killed."""
        self._tell_reaper(f"remove {folder}")

    def stop(self, daemon: Daemon) -> None:
        daemon.stop()
        self.daemons.remove(daemon)

    def stop_all(self) -> None:
        for daemon in reversed(self.daemons):
            daemon.stop()
        self.daemons.clear()
        self._reaper.communicate()

    def _new_log(self, name: str) -> Path:
        """One file a start: what a program said before it was killed stays readable."""
        started = len(list(self.folder.glob(f"{name}*.log")))
        return self.folder / (f"{name}-{started + 1}.log" if started else f"{name}.log")

    def _home_of(self, name: str) -> Path:
        """Where it works: a folder of its own, because the one above holds the tokens of all."""
        home = self.folder / "homes" / name
        home.mkdir(parents=True, exist_ok=True)
        return home

    def _tell_reaper(self, line: str) -> None:
        assert self._reaper.stdin is not None
        self._reaper.stdin.write(line.encode() + b"\n")
        self._reaper.stdin.flush()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
