"""Thousands of clusters stepped at once: the simulator for training, evaluation and rollouts.

``BatchEnv`` has no observation or reward of its own making: ``state`` and ``demand`` are views of its arrays as
agent.cluster describes them, ``encode`` is agent.features, and ``step`` returns the costs by term. Clusters that
are done stay as they are until ``reset`` gives them a tape again.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray, IntArray
from agent.errors import InputError
from agent.features import NODE_FEATURES, POD_FEATURES, Encoding
from envs import batch_arrays as arrays
from envs import batch_kernels as kernels
from envs.batch_arrays import COUNT, DEMAND, NODE, TAPE_NODE, Live, Tapes
from envs.batch_encode import room
from envs.workloads import tape as tapes
from envs.workloads.tape import Tape

CHUNK = 512  # clusters that a thread takes at most at a time: each handing over costs as much as several decisions

Rows = NDArray[np.int64]

NOTHING = Encoding(np.zeros((0, 0, 0), dtype=np.float32), np.zeros((0, 0), dtype=np.float32))  # no features wanted


class BatchEnv:
    """Clusters over a stack of tapes; ``tape_of[c]`` is the row of the stack that cluster ``c`` reads.

    With ``credits`` every pod is charged for the difference it makes (batch_credit), in ``live.pod_credit``.
    """

    def __init__(
        self,
        tape: Tape,
        tape_of: IntArray | None = None,
        assume: bool = True,
        threads: int = 2,
        credits: bool = False,
    ) -> None:
        self.tape_of = np.arange(len(tape.horizon_s)) if tape_of is None else np.array(tape_of, dtype=np.int64)
        if tape.pod_slots > np.iinfo(np.int16).max:
            raise InputError(f"a tape of {tape.pod_slots} pods is too long: at most 32767 fit")
        self.assume = assume
        self.tape = tape
        self.threads = threads
        self._tape = arrays.pack(tape)
        self._live = arrays.allocate(len(self.tape_of), self._tape, credits)
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._spec: dict[str, Any] = {}
        self.reset(np.arange(len(self.tape_of)), self.tape_of)

    # --- sizes

    @property
    def clusters(self) -> int:
        return len(self.tape_of)

    @property
    def node_slots(self) -> int:
        return self.tape.node_slots

    # --- stepping

    def reset(self, rows: Rows, tape_of: IntArray) -> None:
        """Start these clusters anew, on these rows of the stack."""
        _check_rows(self._tape, tape_of)
        arrays.clear(self._live, rows)
        self.tape_of[rows] = tape_of
        self._live.count[rows, COUNT.tape] = tape_of
        self._run(np.asarray(rows, dtype=np.int64), np.full(len(rows), kernels.BEGIN))
        self._describe_nodes(rows)

    def replace_tapes(self, rows: Rows, tape: Tape) -> None:
        """Write new tapes over rows of the stack; the clusters that read them must be reset next."""
        packed = arrays.pack(tape)
        for name, new in packed._asdict().items():
            getattr(self._tape, name)[rows] = new
        self._live = arrays.grown(self._live, arrays.most_running(packed))

    def step(self, actions: IntArray, out: Encoding | None = None) -> FloatArray:
        """One decision for every cluster that is not done; the costs since the last one, (clusters, terms).

        An action outside the mask is counted in ``invalid`` and places nothing. With ``out`` the features of the next
        decision are written there in the same pass, which is cheaper than ``encode`` afterwards.
        """
        if np.shape(actions) != (self.clusters,):
            raise InputError(
                f"actions have the shape {np.shape(actions)}: give one for each of {self.clusters} clusters"
            )
        no_command = np.maximum(np.asarray(actions, dtype=np.int64), -1)  # below are BEGIN and LOOK, for us alone
        self._run(np.arange(self.clusters), no_command, out)
        return self._live.terms

    def clone(self, rows: Rows) -> BatchEnv:
        """Copies of these clusters (a row may be named often), for rollouts; the tapes are shared, not copied."""
        twin = object.__new__(BatchEnv)
        twin.__dict__.update(self.__dict__)
        twin.tape_of = self.tape_of[rows].copy()
        twin._live = Live._make(column[rows] for column in self._live)
        twin._spec = {name: column[rows] for name, column in self._spec.items()}
        return twin

    @property
    def tapes(self) -> Tapes:
        """The stack as the kernels read it."""
        return self._tape

    @property
    def live(self) -> Live:
        """The truth of every cluster: for rollouts, pictures and tests, never for a policy."""
        return self._live

    def use_tapes(self, stack: Tapes, tape_of: IntArray) -> None:
        """From this moment on the same clusters read other tapes: a resampled future."""
        _check_rows(stack, tape_of)
        self._tape = stack
        self._live = arrays.grown(self._live, arrays.most_running(stack))
        self.tape_of[:] = tape_of
        self._live.count[:, COUNT.tape] = tape_of
        self._live.count[:, COUNT.loads_of] = arrays.UNKNOWN

    # --- what is known

    @property
    def done(self) -> BoolArray:
        return self._live.count[:, COUNT.done] > 0

    @property
    def clock_s(self) -> FloatArray:
        return self._live.clock_s

    @property
    def decisions(self) -> IntArray:
        return self._live.count[:, COUNT.decisions].astype(np.int64)

    @property
    def invalid(self) -> IntArray:
        return self._live.count[:, COUNT.invalid].astype(np.int64)

    def candidates(self) -> BoolArray:
        return self._live.mask

    def state(self, rows: slice = slice(None)) -> ClusterState:
        """What a sidecar would know, for all clusters: views that the next step overwrites."""
        live, spec = self._live, self._spec
        node = live.node[rows]
        return ClusterState(
            **{name: column[rows] for name, column in spec.items()},
            schedulable=live.schedulable[rows],
            cpu_requested_millicores=node[:, NODE.known_cpu_requested],
            memory_requested_mib=node[:, NODE.known_memory_requested],
            pods_running=node[:, NODE.known_pods],
            gpu_free_milli=np.maximum(live.known_gpu_free_milli[rows], 0.0),  # two may be believed on one device
            cpu_used_millicores=node[:, NODE.known_cpu],
            cpu_std_millicores=node[:, NODE.known_cpu_std],
            cpu_age_s=node[:, NODE.age_s],
            memory_used_mib=node[:, NODE.known_memory],
            memory_age_s=node[:, NODE.age_s],
            rx_mbps=node[:, NODE.known_rx],
            tx_mbps=node[:, NODE.known_tx],
            connections=node[:, NODE.known_connections],
            network_age_s=node[:, NODE.age_s],
            pending_cpu_millicores=node[:, NODE.pending_cpu],
            pending_memory_mib=node[:, NODE.pending_memory],
            pending_rx_mbps=node[:, NODE.pending_rx],
            pending_tx_mbps=node[:, NODE.pending_tx],
            pending_pods=node[:, NODE.pending_pods],
        )

    def demand(self, rows: slice = slice(None)) -> Demand:
        live = self._live
        pod, node = live.demand[rows], live.node[rows]
        return Demand(
            cpu_request_millicores=pod[:, DEMAND.cpu],
            memory_request_mib=pod[:, DEMAND.memory],
            gpus=pod[:, DEMAND.gpus],
            gpu_milli=pod[:, DEMAND.gpu_milli],
            expected_cpu_millicores=pod[:, DEMAND.expected_cpu],
            expected_memory_mib=pod[:, DEMAND.expected_memory],
            expected_rx_mbps=pod[:, DEMAND.expected_rx],
            expected_tx_mbps=pod[:, DEMAND.expected_tx],
            demand_source=pod[:, DEMAND.source].astype(np.int64),
            sibling_mbps=pod[:, DEMAND.sibling_mbps],
            latency_soft_ms=pod[:, DEMAND.soft_ms],
            latency_hard_ms=pod[:, DEMAND.hard_ms],
            siblings=pod[:, DEMAND.siblings],
            siblings_on_node=node[:, NODE.siblings],
            siblings_in_zone=node[:, NODE.siblings_in_zone],
            sibling_rtt_ms=node[:, NODE.sibling_rtt_ms],
            queue_length=pod[:, DEMAND.queue],
        )

    def encode(self, out: Encoding | None = None) -> Encoding:
        """The features of every cluster: agent.features.encode, compiled."""
        if out is None:
            out = self.new_encoding()
        self._run(np.arange(self.clusters), np.full(self.clusters, kernels.LOOK), out)
        return out

    def new_encoding(self) -> Encoding:
        shape = (self.clusters, self.node_slots)
        nodes = np.zeros((*shape, len(NODE_FEATURES)), dtype=np.float32)
        return Encoding(nodes, np.zeros((self.clusters, len(POD_FEATURES)), dtype=np.float32))

    # --- the truth, for pictures and tests only

    def truth(self, column: str) -> FloatArray:
        """A column of the nodes by name (see batch_arrays.NODE), (clusters, nodes)."""
        return self._live.node[:, getattr(NODE, column)]

    def memory_bytes(self) -> int:
        return sum(column.nbytes for column in (*self._live, *self._tape, *self._spec.values()))

    def _run(self, rows: Rows, actions: IntArray, out: Encoding | None = None) -> None:
        features = out or NOTHING
        if out is not None and (len(out.nodes), len(out.pod)) != (self.clusters, self.clusters):
            raise InputError(f"the arrays for features have no row for each of {self.clusters} clusters")

        size = max(min(CHUNK, -(-len(rows) // self.threads)), 1)

        def part(first: int) -> None:
            some = slice(first, first + size)
            kernels.run_clusters(
                self._live,
                self._tape,
                rows[some],
                actions[some],
                self.assume,
                features.nodes,
                features.pod,
                room(self._tape.zone_rtt_ms.shape[1]),
            )

        self._each(part, range(0, len(rows), size))

    def _each(self, work: Callable[[int], None], items: range) -> None:
        if self._pool is None or len(items) == 1:
            for item in items:
                work(item)
        else:
            list(self._pool.map(work, items))

    def _describe_nodes(self, rows: Rows) -> None:
        """Gather what a node is, for each cluster, from its tape."""
        node = self._tape.node[self.tape_of[rows]]
        nic = np.where(node[:, TAPE_NODE.nic_known] > 0, node[:, TAPE_NODE.nic_mbps], np.nan)
        columns = {
            "cpu_allocatable_millicores": node[:, TAPE_NODE.cpu_millicores],
            "memory_allocatable_mib": node[:, TAPE_NODE.memory_mib],
            "pods_allocatable": node[:, TAPE_NODE.pods],
            "gpu_count": node[:, TAPE_NODE.gpus],
            "nic_mbps": nic,
            "zone": node[:, TAPE_NODE.zone].astype(np.int64),
            "user_latency_ms": node[:, TAPE_NODE.user_latency_ms],
            "price_usd_per_hour": node[:, TAPE_NODE.price_usd_per_hour],
            "power_idle_watts": node[:, TAPE_NODE.power_idle_watts],
            "power_peak_watts": node[:, TAPE_NODE.power_peak_watts],
            "zone_rtt_ms": self._tape.zone_rtt_ms[self.tape_of[rows]],
        }
        if not self._spec:
            self._spec = {
                name: np.zeros((self.clusters, *values.shape[1:]), values.dtype) for name, values in columns.items()
            }
        for name, values in columns.items():
            self._spec[name][rows] = values


def _check_rows(stack: Tapes, tape_of: IntArray) -> None:
    """Compiled code does not look: it would read whatever lies beyond the stack."""
    count = len(stack.rule)
    if np.any((tape_of < 0) | (tape_of >= count)):
        raise InputError(f"tape_of names a row outside the stack of {count} tapes")


def batch_of(tape_list: list[Tape], **options: Any) -> BatchEnv:
    """One cluster for each tape."""
    return BatchEnv(tapes.stack(tape_list), **options)
