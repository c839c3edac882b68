"""``pilotfish benchmark serving``: how fast, how punctual and how large the sidecar is, as kube-scheduler meets it.

Every request goes through a socket to a process of its own. The constant-answer extender is asked in turn with the
sidecar, so that both meet the same noise of the host. The cluster stands still and is made of numbers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import quantiles

from benchmarks.bars import Bar, measured
from benchmarks.extender.client import Connection, a_get, a_request, ask_once, free_port, running, wait_until_ready
from benchmarks.extender.load import under_load

SIZES = (100, 500, 5000)
WARM_UP = 50
CONCURRENT = 200
CONCURRENT_NODES = 500
MEMORY_NODES = 1000
PODS = 1000  # distinct ones: as many as the sidecar keeps decisions of


def run(quick: bool, traces: Path | None = None) -> Iterator[Bar]:
    yield from _latency(rounds=200 if quick else 2000)
    yield _concurrent(seconds=2 if quick else 20)
    yield measured("start_to_ready_s", min(_start_to_ready_s() for _ in range(1 if quick else 3)))
    yield from _memory(requests=2_000 if quick else 200_000)
    yield measured("term_to_exit_s", _term_to_exit_s())


def _latency(rounds: int) -> Iterator[Bar]:
    spread = {}
    for nodes in SIZES:
        sidecar_ms, constant_ms = _paired_ms(nodes, max(rounds * 100 // max(nodes, 100), 100))
        p50_ms, p99_ms = _percentile(sidecar_ms, 50), _percentile(sidecar_ms, 99)
        base_ms = _percentile(constant_ms, 50)
        beside = {"constant_p50_ms": round(base_ms, 3), "requests": len(sidecar_ms)}
        yield measured(f"added_p50_ms_{nodes}_nodes", p50_ms - base_ms, **beside)
        yield measured(f"prioritize_p50_ms_{nodes}_nodes", p50_ms, p99_ms=round(p99_ms, 3))
        spread[nodes] = p99_ms / p50_ms
    by_size = {f"at_{nodes}": round(ratio, 2) for nodes, ratio in spread.items()}
    yield measured("prioritize_p99_over_p50", max(spread.values()), **by_size)


def _paired_ms(nodes: int, rounds: int) -> tuple[list[float], list[float]]:
    """Latencies of the sidecar and of the constant extender, asked in turn."""
    with running("sidecar", nodes) as (_, port), running("constant", nodes) as (_, constant_port):
        ours, constant = Connection(port), Connection(constant_port)
        requests = [a_request(nodes, number) for number in range(min(rounds, PODS))]
        pairs = [_pair(ours, constant, requests[number % len(requests)]) for number in range(WARM_UP + rounds)]
    return [pair[0] for pair in pairs[WARM_UP:]], [pair[1] for pair in pairs[WARM_UP:]]


def _pair(ours: Connection, constant: Connection, request: bytes) -> tuple[float, float]:
    return ours.ask(request)[0] * 1000.0, constant.ask(request)[0] * 1000.0


def _percentile(values: list[float], percent: int) -> float:
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def _concurrent(seconds: int) -> Bar:
    with running("sidecar", CONCURRENT_NODES) as (_, port):
        under_load(port, CONCURRENT_NODES, connections=8, seconds=1)
        load = under_load(port, CONCURRENT_NODES, CONCURRENT, seconds)
        shed = _counter(port, "pilotfish_extender_shed_total")
    facts = {name: round(value, 1) for name, value in asdict(load).items() if name != "latest_ms"}
    worst_ms = load.latest_ms if not load.failed else float("inf")
    return measured("latest_answer_200_concurrent_ms", worst_ms, **facts, shed=shed, nodes=CONCURRENT_NODES)


def _start_to_ready_s() -> float:
    """The command as a user starts it."""
    port, began_s = free_port(), time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "pilotfish", "demo", "--port", str(port)])
    try:
        wait_until_ready(process, port)
        return time.perf_counter() - began_s
    finally:
        process.kill()
        process.wait()


def _memory(requests: int) -> Iterator[Bar]:
    """After the warm-up, and again after so many requests. The pods of the watch come with the collector."""
    with running("sidecar", MEMORY_NODES) as (process, port):
        connection = Connection(port)
        bodies = [a_request(MEMORY_NODES, number) for number in range(PODS)]
        for number in range(max(requests // 20, PODS)):
            connection.ask(bodies[number % PODS])
        before_mb = _resident_mb(process.pid)
        yield measured("memory_1000_nodes_mb", before_mb, pods=0)
        for number in range(requests):
            connection.ask(bodies[number % PODS])
        after_mb = _resident_mb(process.pid)
    yield measured("memory_growth_200000_requests_mb", after_mb - before_mb, requests=requests, after_mb=after_mb)


def _term_to_exit_s() -> float:
    """With a request in flight, which must still be answered."""
    with running("sidecar", MEMORY_NODES) as (process, port):
        connection = Connection(port)
        connection.ask(a_request(MEMORY_NODES, 0))
        connection.send(a_request(MEMORY_NODES, 1))
        began_s = time.perf_counter()
        os.kill(process.pid, signal.SIGTERM)
        connection.receive()
        process.wait(timeout=60)
        return time.perf_counter() - began_s


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return float(status.partition("VmRSS:")[2].split()[0]) / 1024.0


def _counter(port: int, name: str) -> float:
    text = ask_once(port, a_get("/metrics")).decode()
    return float(next(line for line in text.splitlines() if line.startswith(name)).split()[1])
