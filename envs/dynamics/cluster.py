"""What is true of a cluster at one moment: which pods run where, which wait, and what the nodes have given away.

It knows which nodes would take a pod, and puts pods on nodes and takes them off. When that happens is up to
``envs.dynamics.world``; what it costs and what is seen of it, to the modules beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agent.cluster import BoolArray
from agent.feasibility import fits
from agent.gpu import NO_FIT, choose_gpus, take_gpus
from envs.dynamics.knowledge import Placement, every_gpu_free
from envs.dynamics.sampling import candidates_wanted, first_node, latency_allows
from envs.workloads.tape import Tape


@dataclass(slots=True)
class Waiting:
    pod: int
    since_s: float  # in the future: until then it stays away


class Cluster:
    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.nodes = int((tape.node_cpu_millicores > 0).sum())
        self.clock_s = 0.0
        self.running: list[Placement] = []
        self.waiting: list[Waiting] = []
        self.remaining_s = tape.pod_duration_s.astype(np.float64)
        self.killed = np.zeros(tape.pod_slots, dtype=np.int64)  # how often each pod was
        self.schedulable = tape.node_cpu_millicores > 0
        self.cpu_allocated_millicores = np.zeros(tape.node_slots)
        self.memory_allocated_mib = np.zeros(tape.node_slots)
        self.pods = np.zeros(tape.node_slots)
        self.app_pods = np.zeros((tape.app_slots, tape.node_slots))
        self.gpu_free_milli = every_gpu_free(tape)
        self.cpu_millicore_s = np.zeros(tape.node_slots)  # counters of what was carried, as the node exporters show it
        self.rx_mbit = np.zeros(tape.node_slots)
        self.tx_mbit = np.zeros(tape.node_slots)

    # --- which nodes take a pod

    def accepts(self, node: int, pod: int) -> bool:
        tape = self.tape
        roomy = fits(
            tape.node_cpu_millicores[node] - self.cpu_allocated_millicores[node],
            tape.node_memory_mib[node] - self.memory_allocated_mib[node],
            tape.node_pods[node] - self.pods[node],
            float(tape.pod_cpu_request_millicores[pod]),
            float(tape.pod_memory_request_mib[pod]),
        )
        near = latency_allows(float(tape.node_user_latency_ms[node]), float(tape.pod_latency_hard_ms[pod]))
        gpus, gpu_milli = int(tape.pod_gpus[pod]), float(tape.pod_gpu_milli[pod])
        devices = gpus == 0 or choose_gpus(self.gpu_free_milli[node], gpus, gpu_milli) != NO_FIT
        return bool(self.schedulable[node] and roomy and near and devices)

    def feasible(self, pod: int) -> BoolArray:
        """The nodes that kube-scheduler would offer: the first feasible ones from where it starts to look."""
        mask = np.zeros(self.tape.node_slots, dtype=np.bool_)
        wanted = candidates_wanted(self.nodes, int(self.tape.candidate_minimum))
        for node in self._round(pod):
            if wanted > 0 and self.accepts(node, pod):
                mask[node] = True
                wanted -= 1
        return mask

    def first_accepting(self, pod: int) -> int | None:
        return next((node for node in self._round(pod) if self.accepts(node, pod)), None)

    def _round(self, pod: int) -> list[int]:
        """All nodes, from the one at which the search for this pod begins."""
        start = first_node(float(self.tape.pod_start[pod]), self.nodes)
        return [(start + offset) % self.nodes for offset in range(self.nodes)]

    # --- pods come and go

    def place(self, pod: int, node: int, bound_at_s: float) -> Placement:
        tape = self.tape
        gpus, gpu_milli = int(tape.pod_gpus[pod]), float(tape.pod_gpu_milli[pod])
        chosen = choose_gpus(self.gpu_free_milli[node], gpus, gpu_milli) if gpus else 0
        take_gpus(self.gpu_free_milli[node], chosen, gpu_milli)
        ends_at_s = self.clock_s + float(self.remaining_s[pod])
        placement = Placement(pod, node, -1, bound_at_s, ends_at_s, chosen, visible_at=-1)
        self._allocate(placement, +1.0)
        self.running.append(placement)
        return placement

    def vacate(self, placement: Placement) -> None:
        """Give back what the pod had; who calls this takes it off the list of those that run."""
        self._allocate(placement, -1.0)
        take_gpus(self.gpu_free_milli[placement.node], placement.gpus, -float(self.tape.pod_gpu_milli[placement.pod]))

    def _allocate(self, placement: Placement, sign: float) -> None:
        pod, node = placement.pod, placement.node
        self.cpu_allocated_millicores[node] += sign * float(self.tape.pod_cpu_request_millicores[pod])
        self.memory_allocated_mib[node] += sign * float(self.tape.pod_memory_request_mib[pod])
        self.pods[node] += sign
        self.app_pods[self.tape.pod_app[pod], node] += sign
