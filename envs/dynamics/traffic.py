"""Who talks to whom: each pod of an app spreads its sibling traffic evenly over the other pods of the app.

With one rate for all pods of an app the matrix of flows is symmetric, so what a node sends to siblings
elsewhere equals what it receives from them: traffic in equals traffic out, over the cluster and per node.
"""

from __future__ import annotations


def remote_share(pods_of_app: float, pods_on_node: float) -> float:
    """Share of a pod's sibling traffic that leaves its node and so uses the NIC."""
    if pods_of_app <= 1:
        return 0.0
    return (pods_of_app - pods_on_node) / (pods_of_app - 1)


def cross_zone_share(pods_of_app: float, pods_in_zone: float) -> float:
    """Share of a pod's sibling traffic that leaves its zone and so is paid for."""
    if pods_of_app <= 1:
        return 0.0
    return (pods_of_app - pods_in_zone) / (pods_of_app - 1)


def sibling_traffic_mbps(rate_mbps: float, pods_of_app: float, load: float) -> float:
    """What one pod sends to its siblings; a pod alone has nobody to talk to."""
    return rate_mbps * load if pods_of_app > 1 else 0.0
