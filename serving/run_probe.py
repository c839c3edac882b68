"""``pilotfish probe``: runs a latency probe until a signal comes."""

from __future__ import annotations

import logging
import signal
import threading

from agent.errors import InputError
from envs.live.probe import Probe

logger = logging.getLogger(__name__)


def run_probe(target: str, host: str, port: int) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        probe = Probe(target, host, port)
    except OSError as why:
        raise InputError(f"cannot listen on {host} port {port}: {why.strerror}; choose another") from why
    logger.info("latency to %s at http://%s:%d/", target, host, port)
    for number in (signal.SIGTERM, signal.SIGINT):  # stop waits for serve, which runs in this very thread
        signal.signal(number, lambda *_: threading.Thread(target=probe.stop, daemon=True).start())
    probe.serve()
