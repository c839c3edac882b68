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

BYTES_PER_MBIT = 1e6 / 8
BYTES_PER_MIB = 2**20
MILLICORES = 1000.0


class Truth:
    """Safe to call from any thread. Pods and nodes go by their number on the tape."""

    def __init__(self, tape: Tape, speed: float = 1.0) -> None:
        """``speed``: tape seconds a second. Counters are shown by the clock on the wall: their rates stay true."""
        self.tape = tape
        self.speed = speed
        self.terms = costs.no_costs()
        self.offered_mbit = 0.0
        self.overload_s = 0.0  # node-seconds in which a NIC was asked for more than it has
        self._cluster = Cluster(tape)
        self._placements: dict[int, Placement] = {}
        self._idle_cpu_s = np.zeros(tape.node_slots)
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

    def advance(self) -> None:
        """One tick of the tape: what the pods that run now did during it."""
        with self._lock:
            self._loads = loads_of(self._cluster)
            account(self._cluster, self._loads, self.terms)
            self._measure(self._loads)
            self._cluster.clock_s += float(self.tape.tick_s)

    @property
    def clock_s(self) -> float:
        return self._cluster.clock_s

    def lost_share(self) -> float:
        """Of all traffic that was offered to the NICs."""
        lost_mbit = self.terms[costs.NETWORK_LOSS] * costs.MBIT_PER_GB
        return float(lost_mbit / self.offered_mbit) if self.offered_mbit else 0.0

    def page(self, node: int) -> str:
        """What a node exporter on this node shows, in Prometheus' text format."""
        with self._lock:
            return "\n".join([*self._cpu(node), *self._memory(node), *self._network(node)]) + "\n"

    def _measure(self, loads: Loads) -> None:
        tick_s = float(self.tape.tick_s)
        self.offered_mbit += float(loads.rx_mbps.sum() + loads.tx_mbps.sum()) * tick_s
        busiest = np.maximum(loads.rx_mbps, loads.tx_mbps)
        self.overload_s += float((busiest > self.tape.node_nic_mbps).sum()) * tick_s
        cores = self.tape.node_cpu_millicores / MILLICORES
        used = _at_most(loads.cpu_millicores, self.tape.node_cpu_millicores) / MILLICORES
        self._idle_cpu_s += (cores - used) * tick_s

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
