"""The Reserve rule: a node that this pod would fill to the brim is refused, whatever its requests say (S3.12).

kube-scheduler counts requests; this counts use. Placements that the metrics do not show yet are in the state's
``pending`` columns (agent/assumed.py), so two pods that fit alone but not together do not both pass (S3.14).
"""

from __future__ import annotations

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray

RESERVE_LIMIT_PERCENT = 95.0


def reserve_refuses(state: ClusterState, demand: Demand, limit_percent: float = RESERVE_LIMIT_PERCENT) -> BoolArray:
    """Nodes where predicted CPU or memory exceeds the limit; exactly the limit passes.

    Predicted = current + assumed + this pod, by use; by requests where the use is unknown.
    """
    cpu = _predicted(
        state.cpu_used_millicores + state.pending_cpu_millicores,
        demand.expected_cpu_millicores,
        state.cpu_requested_millicores,
        demand.cpu_request_millicores,
    )
    memory = _predicted(
        state.memory_used_mib + state.pending_memory_mib,
        demand.expected_memory_mib,
        state.memory_requested_mib,
        demand.memory_request_mib,
    )
    return _over(cpu, state.cpu_allocatable_millicores, limit_percent) | _over(
        memory, state.memory_allocatable_mib, limit_percent
    )


def _predicted(
    used: FloatArray, pod_expected: FloatArray, requested: FloatArray, pod_request: FloatArray
) -> FloatArray:
    by_use = used + np.asarray(pod_expected)[..., None]
    by_requests = requested + np.asarray(pod_request)[..., None]
    return np.where(np.isnan(by_use), by_requests, by_use)


def _over(predicted: FloatArray, allocatable: FloatArray, limit_percent: float) -> BoolArray:
    # multiplied, not divided: exactly 95 % of whole numbers must not become 95.00000000000001
    return predicted * 100.0 > limit_percent * allocatable
