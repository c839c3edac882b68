"""Features exchanged between nodes at random: if a policy does no worse then, it does not use them.

All columns of a group move together, so that every node still has values that belong together, only another node's.
"""

from __future__ import annotations

import numpy as np

from agent.cluster import BoolArray
from agent.features import NODE_COLUMN, Encoding
from training.as_served import Distortion

# What a node's NIC carries and will carry.
TRAFFIC = ("rx_ratio", "tx_ratio", "rx_expected_ratio", "tx_expected_ratio", "network_hot")
# Where the pod's siblings are, and the traffic to them that follows from it.
SIBLINGS = (
    *("siblings_on_node_share", "siblings_in_zone_share"),
    *("remote_traffic", "cross_zone_traffic", "sibling_rtt"),
)

_EXPECTED = [NODE_COLUMN[f"{kind}_expected_ratio"] for kind in ("cpu", "memory", "rx", "tx")]


def shuffled(names: tuple[str, ...], rng: np.random.Generator) -> Distortion:
    """Exchanges these columns among the candidates of each cluster; the largest expected ratio follows them."""
    columns = [NODE_COLUMN[name] for name in names]

    def distort(encoding: Encoding, candidates: BoolArray) -> Encoding:
        nodes = encoding.nodes.copy()
        source = permutation(candidates, rng)
        nodes[..., columns] = np.take_along_axis(encoding.nodes[..., columns], source[..., None], axis=-2)
        worst = nodes[..., _EXPECTED].max(axis=-1)
        nodes[..., NODE_COLUMN["worst_expected_ratio"]] = np.where(candidates, worst, 0.0)
        return Encoding(nodes, encoding.pod)

    return distort


def permutation(candidates: BoolArray, rng: np.random.Generator) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """For each candidate another one at random, every one taken once; other nodes keep their place."""
    keys = np.where(candidates, rng.random(candidates.shape), 2.0)
    drawn = np.argsort(keys, axis=-1, kind="stable")  # the candidates in random order, then the others
    places = np.argsort(~candidates, axis=-1, kind="stable")  # the candidates in their order, then the others
    source = np.empty(candidates.shape, dtype=np.int64)
    np.put_along_axis(source, places, drawn, axis=-1)
    return source
