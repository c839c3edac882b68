"""What the kubelet's cAdvisor counts of single pods: what each got through, never what it asked for."""

from __future__ import annotations

import numpy as np

from envs.dynamics.cluster import Cluster
from envs.dynamics.contention import carried_ratio
from envs.dynamics.loading import Loads
from envs.workloads.tape import Tape
from tests.cluster.metering import MILLICORES
from tests.cluster.tape_objects import BYTES_PER_MIB, pod_name

BYTES_PER_MBIT = 1e6 / 8


class PodCounters:
    def __init__(self, tape: Tape, namespace: str, speed: float) -> None:
        """``speed`` as in Truth: counters are shown by the clock on the wall."""
        self._tape, self._namespace, self._speed = tape, namespace, speed
        self._core_s, self._rx_mbit, self._tx_mbit, self._memory_mib = np.zeros((4, tape.pod_slots))

    def add(self, cluster: Cluster, loads: Loads) -> None:
        """One tick; every pod on a node gets through the same share of what it asks for."""
        tape, tick_s = self._tape, float(self._tape.tick_s)
        for index, placement in enumerate(cluster.running):
            pod, node = placement.pod, placement.node
            cpu = carried_ratio(loads.cpu_millicores[node], float(tape.node_cpu_millicores[node]))
            nic_mbps = float(tape.node_nic_mbps[node])
            rx, tx = carried_ratio(loads.rx_mbps[node], nic_mbps), carried_ratio(loads.tx_mbps[node], nic_mbps)
            self._core_s[pod] += loads.pod_cpu_millicores[index] * cpu / MILLICORES * tick_s
            self._rx_mbit[pod] += loads.pod_rx_mbps[index] * rx * tick_s
            self._tx_mbit[pod] += loads.pod_tx_mbps[index] * tx * tick_s
            self._memory_mib[pod] = loads.pod_memory_mib[index]

    def lines(self, pods: list[int]) -> list[str]:
        return [line for pod in pods for line in self._lines_of(pod)]

    def _lines_of(self, pod: int) -> list[str]:
        whose = f'namespace="{self._namespace}",pod="{pod_name(self._tape, pod)}"'
        container, interface = f'{{{whose},container="main"}}', f'{{{whose},interface="eth0"}}'
        received, sent = (way[pod] * BYTES_PER_MBIT / self._speed for way in (self._rx_mbit, self._tx_mbit))
        return [
            f"container_cpu_usage_seconds_total{container} {self._core_s[pod] / self._speed}",
            f"container_memory_working_set_bytes{container} {self._memory_mib[pod] * BYTES_PER_MIB}",
            f"container_network_receive_bytes_total{interface} {received}",
            f"container_network_transmit_bytes_total{interface} {sent}",
        ]
