"""What happens when more is asked of a node than it has."""

from __future__ import annotations

FIRST_BACK_OFF_S, MOST_BACK_OFF_S = 10.0, 300.0  # as the kubelet restarts a container that was killed


def carried(offered: float, capacity: float) -> float:
    """A NIC or a CPU delivers at most its capacity; metrics see only this."""
    return min(offered, capacity)


def lost(offered: float, capacity: float) -> float:
    """Traffic over the NIC's capacity is dropped; CPU over capacity is throttled."""
    return max(offered - capacity, 0.0)


def carried_ratio(offered: float, capacity: float) -> float:
    """Share of what was offered that got through, the same for every pod on the node."""
    if offered <= capacity:
        return 1.0
    return capacity / offered


def oom_badness_mib(used_mib: float, request_mib: float) -> float:
    """The kernel kills first what is furthest above its request."""
    return used_mib - request_mib


def back_off_s(kills: int) -> float:
    """How long a pod stays away after it was killed for the so-manieth time: twice as long each time."""
    return min(FIRST_BACK_OFF_S * 2.0 ** (kills - 1), MOST_BACK_OFF_S)


def latency_violation(latency_ms: float, soft_ms: float, hard_ms: float) -> float:
    """0 up to the soft limit, one half up to the hard one, 1 beyond (S1.27); NaN limits never bind."""
    if latency_ms > hard_ms:
        return 1.0
    if latency_ms > soft_ms:
        return 0.5
    return 0.0


def stranded_cores(cpu_free_ratio: float, memory_free_ratio: float, cpu_millicores: float) -> float:
    """Free capacity that cannot be used because the other resource runs out first, in cores."""
    return abs(cpu_free_ratio - memory_free_ratio) * cpu_millicores / 1000.0
