"""Metrics for every node, so that the policy answers: a real Prometheus over one page with the counters of all nodes.

One page, because 5,000 exporters scraped one by one would take the processor from what is measured.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.cluster.api import eventually
from tests.cluster.apiserver import LOOPBACK
from tests.cluster.processes import Processes
from tests.cluster.scraping import Prometheus, start_prometheus

RATES = "sum by (node) (rate(node_network_receive_bytes_total[60s]))"
CORES, MEMORY_BYTES, NIC_BYTES = 8, 32 << 30, 1.25e8


class NodePages:
    """What node exporters of all these nodes show; ``nodes`` may be replaced."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = nodes

    def text(self) -> str:
        now_s = time.time()
        return "".join(_page(name, index, now_s) for index, name in enumerate(self.nodes))


def _page(name: str, index: int, now_s: float) -> str:
    """Nodes differ from each other, and none is idle or full."""
    share = 0.1 + 0.5 * (index * 37 % 101) / 101
    node, device = f'{{node="{name}"', f'{{node="{name}",device="eth0"}}'
    used_bytes = round(MEMORY_BYTES * share)
    traffic = round(now_s * NIC_BYTES * share / 2)
    return (
        f'node_cpu_seconds_total{node},cpu="0",mode="idle"}} {now_s * CORES * (1 - share):.2f}\n'
        f"node_network_receive_bytes_total{device} {traffic}\nnode_network_transmit_bytes_total{device} {traffic}\n"
        f"node_network_speed_bytes{device} {NIC_BYTES:.0f}\n"
        f"node_memory_MemTotal_bytes{node}}} {MEMORY_BYTES}\n"
        f"node_memory_MemAvailable_bytes{node}}} {MEMORY_BYTES - used_bytes}\n"
        f"node_netstat_Tcp_CurrEstab{node}}} {index % 100}\n"
    )


@contextmanager
def measured_nodes(processes: Processes, pages: NodePages, scrape_every_s: float) -> Iterator[Prometheus]:
    server = ThreadingHTTPServer((LOOPBACK, 0), _handler_of(pages))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    address = f"{LOOPBACK}:{server.server_port}"
    prometheus = start_prometheus(processes, address, ["all"], scrape_every_s)
    try:
        yield prometheus
    finally:
        processes.stop(prometheus.daemon)
        server.shutdown()
        server.server_close()


def wait_until_measured(prometheus: Prometheus, pages: NodePages) -> None:
    """A rate needs two scrapes."""
    eventually(lambda: len(prometheus.values(RATES)) >= len(pages.nodes), "every node scraped twice", 60.0, 0.5)


def _handler_of(pages: NodePages) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    return Handler
