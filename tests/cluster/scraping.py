"""Prometheus, scraping the page of every node from the exporter."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml

from tests.cluster.api import Object
from tests.cluster.apiserver import LOOPBACK
from tests.cluster.processes import Daemon, Processes, free_port


@dataclass(frozen=True)
class Prometheus:
    daemon: Daemon
    url: str

    def values(self, query: str) -> dict[str, float]:
        """By node."""
        reply = httpx.get(f"{self.url}/api/v1/query", params={"query": query}, timeout=5.0, trust_env=False)
        series = reply.raise_for_status().json()["data"]["result"]
        return {one["metric"]["node"]: float(one["value"][1]) for one in series}

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/-/ready", timeout=2.0, trust_env=False).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False


def start_prometheus(
    processes: Processes, exporter: str, nodes: Iterable[str], interval_s: float = 1, out_of_order: str = ""
) -> Prometheus:
    """``exporter`` is its address; it has a page for every node. ``out_of_order``: how late a sample may come."""
    program = shutil.which("prometheus")
    assert program, "prometheus is missing: tests/system_packages.sh installs the Debian package"
    port, data = free_port(), processes.folder / "prometheus"
    processes.remove_in_the_end(data)
    file = processes.folder / "prometheus.yaml"
    options = [
        f"--config.file={_configuration(file, exporter, nodes, interval_s, out_of_order)}",
        f"--storage.tsdb.path={data}",
        f"--web.listen-address={LOOPBACK}:{port}",
        "--log.level=warn",
    ]
    url = f"http://{LOOPBACK}:{port}"
    prometheus = Prometheus(processes.start("prometheus", Path(program), options), url)
    prometheus.daemon.wait_until(prometheus.is_ready)
    return prometheus


def _configuration(path: Path, exporter: str, nodes: Iterable[str], interval_s: float, out_of_order: str) -> Path:
    targets = [{"targets": [exporter], "labels": _labels(node)} for node in nodes]
    interval = f"{round(1000 * interval_s)}ms"
    configuration: Object = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        # a page may name the nodes itself
        "scrape_configs": [{"job_name": "nodes", "static_configs": targets, "honor_labels": True}],
        "rule_files": [str(_rules(path.with_name("prometheus-rules.yaml"), interval_s))],
    }
    if out_of_order:
        configuration["storage"] = {"tsdb": {"out_of_order_time_window": out_of_order}}
    path.write_text(yaml.safe_dump(configuration))
    return path


def _labels(node: str) -> dict[str, str]:
    return {"__metrics_path__": f"/{node}", "node": node, "instance": node}


def _rules(path: Path, interval_s: float) -> Path:
    """The series of the usual Prometheus stack that Trimaran's load watcher asks for."""
    idle = f'rate(node_cpu_seconds_total{{mode="idle"}}[{round(4 * interval_s * 1000)}ms])'
    memory = "1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes"
    rules = [
        {"record": "instance:node_cpu:ratio", "expr": f"1 - avg by (instance) ({idle})"},
        {"record": "instance:node_memory_utilisation:ratio", "expr": f"max by (instance) ({memory})"},
    ]
    path.write_text(yaml.safe_dump({"groups": [{"name": "load-watcher", "rules": rules}]}))
    return path
