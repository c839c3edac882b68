"""How much of a placement the metrics do not show yet, and how much of a pod they still show that has left.

A node's metric is a mean over a window that ends at its sample. A pod bound inside that window is in the mean
for a part of it only; a pod bound after the sample is not in it at all. What is missing must be added to what
was measured, or a whole burst lands on the node that looked idle at the last scrape (design.md, section 3). A pod that
left inside the window, or after the sample, is in the mean and not on the node: that much must be taken away again, or
nodes look busy that have room.

Only plain arithmetic: the compiled batch environment calls the same function as the sidecar.
"""

from __future__ import annotations

import numpy as np

from agent.cluster import FloatArray

Seconds = float | FloatArray

SHORTEST_WINDOW_S = 1e-9  # a gauge has no window; dividing by 0 would give NaN at the moment of the bind


def pending_weight(bound_at_s: Seconds, sample_at_s: Seconds, window_s: Seconds) -> FloatArray:
    """Share of a pod's use that a metric sampled at ``sample_at_s`` does not contain: 1 none of it, 0 all.

    ``sample_at_s`` of -inf (no metric at all) gives 1.
    """
    covered: FloatArray = (sample_at_s - bound_at_s) / np.maximum(window_s, SHORTEST_WINDOW_S)
    share: FloatArray = np.minimum(np.maximum(covered, 0.0), 1.0)
    return 1.0 - share
