"""Latency limits, compiled: how far a running pod is above its own (see batch_kernels)."""

from __future__ import annotations

import numpy as np

from envs.batch_arrays import RUN_MORE, TAPE_NODE
from envs.batch_rules import compiled, latency_violation


@compiled
def violation(L, T, c, t, more, node, app, total):
    soft_ms = np.float64(more[RUN_MORE.soft_ms])
    if soft_ms != soft_ms:
        return 0.0
    zone = int(T.node[t, TAPE_NODE.zone, node])
    rtt_ms = 0.0
    for other in range(T.zone_rtt_ms.shape[1]):
        rtt_ms += L.app_zone_pods[c, app, other] * T.zone_rtt_ms[t, zone, other]
    rtt_ms -= L.app_pods[c, app, node] * T.zone_rtt_ms[t, zone, zone]
    latency_ms = T.node[t, TAPE_NODE.user_latency_ms, node] + rtt_ms / max(total - 1.0, 1.0)
    return latency_violation(latency_ms, soft_ms, np.float64(more[RUN_MORE.hard_ms]))
