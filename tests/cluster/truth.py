"""What is true of a tape's cluster when somebody else places its pods: here a real scheduler, told by the API server.

The rules are those of ``envs.dynamics``: the same loads, the same contention, the same counters of what was carried.
The true demand lies in the tape and stays in the process of the tests; Pilotfish sees what a node exporter shows of it.
"""

from __future__ import annotations

import threading

import numpy as np

from agent.cluster import FloatArray
from envs.dynamics import costs, usage
from envs.dynamics.accounting import account
from envs.dynamics.cluster import Cluster
from envs.dynamics.knowledge import Placement
from envs.dynamics.loading import Loads, loads_of
from envs.workloads.tape import Tape
from tests.cluster.metering import MILLICORES, Meter
from tests.cluster.pod_counters import PodCounters

BYTES_PER_MBIT = 1e6 / 8
BYTES_PER_MIB = 2**20


class Truth:
    """Safe to call from any thread. Pods and nodes go by their number on the tape.

    Until ``begun`` is set the loads of the first moment last: counters run, as those of nodes that were not started
    for the sake of a test, but the clock of the tape stands and nothing is held against anybody.
    """

    def __init__(self, tape: Tape, speed: float = 1.0, namespace: str = "default", begun: bool = True) -> None:
        """``speed``: tape seconds a second. Counters are shown by the clock on the wall: their rates stay true."""
        self.tape = tape
        self.speed = speed
        self.begun = begun
        self.terms = costs.no_costs()
        self.meter = Meter()
        self._cluster = Cluster(tape)
        self._placements: dict[int, Placement] = {}
        self._idle_cpu_s = np.zeros(tape.node_slots)
        self._pod_counters = PodCounters(tape, namespace, speed)
        self._lock = threading.Lock()
        self._loads = loads_of(self._cluster)

    def bound(self, pod: int, node: int) -> None:
        with self._lock:
            if pod not in self._placements:
                self._placements[pod] = self._cluster.place(pod, node, self._cluster.clock_s)

    def gone(self, pod: int) -> None:
        with self._lock:
            placement = self._placements.pop(pod, None)
            if placement is not None:
                self._cluster.vacate(placement)
                self._cluster.running.remove(placement)

    def advance(self) -> list[int]:
        """One tick of the tape: what the pods that run now did during it. Returns those whose time is over then."""
        with self._lock:
            self._loads = loads_of(self._cluster)
            account(self._cluster, self._loads, self.terms if self.begun else costs.no_costs())
            self._pod_counters.add(self._cluster, self._loads)
            self._idle(self._loads)
            if not self.begun or self.over:
                return []
            self.meter.add(self._cluster, self._loads)
            self._cluster.clock_s += float(self.tape.tick_s)
            return [pod for pod, running in self._placements.items() if running.ends_at_s <= self._cluster.clock_s]

    @property
    def clock_s(self) -> float:
        return self._cluster.clock_s

    @property
    def over(self) -> bool:
        return self._cluster.clock_s >= float(self.tape.horizon_s)

    def page(self, node: int) -> str:
        """What a node exporter and the kubelet's cAdvisor on this node show, in Prometheus' text format."""
        with self._lock:
            pods = [placement.pod for placement in self._cluster.running if placement.node == node]
            of_pods = self._pod_counters.lines(pods) if self.tape.pod_metrics else []
            return "\n".join([*self._cpu(node), *self._memory(node), *self._network(node), *of_pods]) + "\n"

    def _idle(self, loads: Loads) -> None:
        cores = self.tape.node_cpu_millicores / MILLICORES
        used = _at_most(loads.cpu_millicores, self.tape.node_cpu_millicores) / MILLICORES
        self._idle_cpu_s += (cores - used) * float(self.tape.tick_s)

    def _cpu(self, node: int) -> list[str]:
        """A node exporter shows each core; all are equally busy here."""
        cores = max(round(float(self.tape.node_cpu_millicores[node]) / MILLICORES), 1)
        idle_s = self._idle_cpu_s[node] / cores / self.speed
        busy_s = self._cluster.cpu_millicore_s[node] / MILLICORES / cores / self.speed
        modes = (("idle", idle_s), ("user", busy_s))
        return [
            f'node_cpu_seconds_total{{cpu="{cpu}",mode="{mode}"}} {seconds}'
            for cpu in range(cores)
            for mode, seconds in modes
        ]

    def _memory(self, node: int) -> list[str]:
        total = float(self.tape.node_memory_mib[node]) * BYTES_PER_MIB
        used = min(float(self._loads.memory_mib[node]) * BYTES_PER_MIB, total)
        return [f"node_memory_MemTotal_bytes {total}", f"node_memory_MemAvailable_bytes {total - used}"]

    def _network(self, node: int) -> list[str]:
        nic_mbps = float(self.tape.node_nic_mbps[node])
        carried_mbps = sum(min(float(way[node]), nic_mbps) for way in (self._loads.rx_mbps, self._loads.tx_mbps))
        received, sent = (
            way[node] * BYTES_PER_MBIT / self.speed for way in (self._cluster.rx_mbit, self._cluster.tx_mbit)
        )
        device = '{device="eth0"}'
        lines = [
            f"node_network_receive_bytes_total{device} {received}",
            f"node_network_transmit_bytes_total{device} {sent}",
            f"node_netstat_Tcp_CurrEstab {usage.connections(carried_mbps)}",
        ]
        if self.tape.node_nic_known[node]:
            lines.append(f"node_network_speed_bytes{device} {nic_mbps * BYTES_PER_MBIT}")
        return lines


def _at_most(asked: FloatArray, capacity: FloatArray) -> FloatArray:
    carried: FloatArray = np.minimum(asked, capacity)
    return carried
