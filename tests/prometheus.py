"""A real Prometheus on a free port, with exporters that tests fill, and the ways in which a network goes wrong."""

from __future__ import annotations

import shutil
import socket
import socketserver
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

from tests.cluster.processes import Daemon, Processes, free_port

START_WITHIN_S = 20.0


def binary(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is missing: tests/system_packages.sh installs the Debian package prometheus"
    return found


def wait_for(condition: Callable[[], object], within_s: float = 15.0, what: str = "it") -> None:
    until_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until_s, f"{what} did not happen within {within_s} s"
        time.sleep(0.05)


class Counters:
    """What a node exporter of one node shows: counters that rise with the time, gauges as they are."""

    def __init__(self, rx_bytes_per_s: float = 1e6, tx_bytes_per_s: float = 5e5, cores_busy: float = 1.0) -> None:
        self.rx_bytes_per_s = rx_bytes_per_s
        self.tx_bytes_per_s = tx_bytes_per_s
        self.cores_busy = cores_busy
        self.cores = 4
        self.memory_total, self.memory_free = 16 << 30, 12 << 30
        self.speed_bytes: float | None = 125e6
        self.connections: float | str = 42
        self.nodename = ""
        self.clock_ahead_s: float | None = None  # set: samples carry timestamps of a clock that is so wrong
        self.extra = ""
        self.answers = True
        self._began_s = time.time()
        self._at_s, self._rx, self._tx, self._idle = self._began_s, 1e9, 1e9, 1e5

    def reset(self) -> None:
        """A reboot: all counters begin at 0 again."""
        self._at_s, self._rx, self._tx, self._idle = time.time(), 0.0, 0.0, 0.0

    def text(self) -> str:
        now_s = time.time()
        past_s, self._at_s = now_s - self._at_s, now_s
        self._rx += self.rx_bytes_per_s * past_s
        self._tx += self.tx_bytes_per_s * past_s
        self._idle += (1.0 - self.cores_busy / self.cores) * past_s
        lines = [f'node_cpu_seconds_total{{cpu="{cpu}",mode="idle"}} {self._idle}' for cpu in range(self.cores)]
        lines += [
            f'node_network_receive_bytes_total{{device="eth0"}} {self._rx}',
            f'node_network_transmit_bytes_total{{device="eth0"}} {self._tx}',
            f'node_network_receive_bytes_total{{device="lo"}} {self._rx * 3}',
            f'node_network_transmit_bytes_total{{device="lo"}} {self._tx * 3}',
            f"node_memory_MemTotal_bytes {self.memory_total}",
            f"node_memory_MemAvailable_bytes {self.memory_free}",
            f"node_netstat_Tcp_CurrEstab {self.connections}",
        ]
        if self.speed_bytes is not None:
            lines.append(f'node_network_speed_bytes{{device="eth0"}} {self.speed_bytes}')
        if self.nodename:
            lines.append(f'node_uname_info{{nodename="{self.nodename}"}} 1')
        stamp = "" if self.clock_ahead_s is None else f" {round((now_s + self.clock_ahead_s) * 1000)}"
        return "\n".join([*(line + stamp for line in lines), self.extra]) + "\n"


class Exporters:
    """One HTTP server, a path for each exporter."""

    def __init__(self, pages: Mapping[str, Counters | str]) -> None:
        self.pages = dict(pages)
        exporters = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = exporters.pages.get(self.path.strip("/"))
                if page is None or (isinstance(page, Counters) and not page.answers):
                    self.send_error(503)
                    return
                body = (page if isinstance(page, str) else page.text()).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Prometheus:
    """The server itself. ``labels`` of each exporter: what a scrape configuration would give its target."""

    def __init__(self, folder: Path, exporters: Exporters, labels: Mapping[str, Mapping[str, str]]) -> None:
        self.folder = folder
        self.port = free_port()
        self.daemon: Daemon | None = None
        self._processes: Processes | None = None
        self._exporters = exporters
        self.configure(labels)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def configure(self, labels: Mapping[str, Mapping[str, str]], scrape_interval: str = "1s") -> None:
        targets = [
            {"targets": [self._exporters.address], "labels": {"__metrics_path__": f"/{page}", **given}}
            for page, given in labels.items()
        ]
        config = {
            "global": {"scrape_interval": scrape_interval, "scrape_timeout": scrape_interval},
            "scrape_configs": [{"job_name": "node", "static_configs": targets}],
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")

    def start(self) -> Prometheus:
        options = [
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--web.enable-lifecycle",
            "--storage.tsdb.retention.time=365d",
            "--log.level=warn",
        ]
        self._processes = Processes(self.folder)
        self.daemon = self._processes.start("prometheus", Path(binary("prometheus")), options)
        self.daemon.wait_until(self._is_ready, START_WITHIN_S)
        return self

    def kill(self) -> None:
        if self.daemon is not None and self._processes is not None:
            self.daemon.kill()
            self._processes.stop_all()
            self.daemon = self._processes = None

    def reload(self) -> None:
        urllib.request.urlopen(f"{self.address}/-/reload", data=b"", timeout=5).close()

    def count(self, query: str) -> int:
        """How many series answer the query."""
        asked = urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(f"{self.address}/api/v1/query?{asked}", timeout=5) as reply:
            return reply.read().count(b'"metric"')

    def _is_ready(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.address}/-/ready", timeout=1).close()
            return True
        except OSError:
            return False


@contextmanager
def prometheus_over(
    folder: Path, pages: Mapping[str, Counters | str], labels: Mapping[str, Mapping[str, str]] | None = None
) -> Iterator[Prometheus]:
    """Started, with every exporter scraped twice; by default the instance of a target is the name of its page."""
    exporters = Exporters(pages)
    given = {page: {"instance": page} for page in pages} if labels is None else labels
    server = Prometheus(folder, exporters, given)
    try:
        yield server.start()
    finally:
        server.kill()
        exporters.close()


class DelayingProxy:
    """A TCP proxy whose answers come late by ``delay_s``, in ``piece`` bytes at a time."""

    def __init__(self, port: int, delay_s: float = 0.0, piece: int = 1 << 16) -> None:
        self.delay_s, self.piece = delay_s, piece
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                try:
                    with socket.create_connection(("127.0.0.1", port), timeout=5) as server:
                        threading.Thread(target=proxy._pass_on, args=(self.request, server), daemon=True).start()
                        while data := server.recv(proxy.piece):
                            time.sleep(proxy.delay_s)
                            self.request.sendall(data)
                except OSError:
                    pass

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @staticmethod
    def _pass_on(client: socket.socket, server: socket.socket) -> None:
        try:
            while data := client.recv(1 << 16):
                server.sendall(data)
        except OSError:
            pass

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@contextmanager
def answering(
    status: int, body: bytes, headers: Mapping[str, str] | None = None, asked: list[Mapping[str, str]] | None = None
) -> Iterator[str]:
    """An HTTP server that answers everything with this; gives its address, and in ``asked`` what it was sent."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if asked is not None:
                asked.append(dict(self.headers))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
