"""The network of the GPU model: a weight for each node feature, chosen by what the pod asks of the GPUs.

Small on purpose. A pod of no GPU, of a share, of one and of several wants different things of a node, and an empty node
is looked at with other eyes than one that is paid for already. A score that needs nothing but the node and the pod's
GPU request can be kept until the node changes: a whole published packing run (1,213 nodes, 8,000 pods) takes a fraction
of a second, and that is what makes training on the real objective possible.

Scores are whole numbers. Nodes that are nearly equal so become equal, the first of them is filled before the next is
opened, and fewer nodes are left with a fragment each; how coarse it is, the size of the weights says.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from agent.features import NODE_COLUMN, NODE_FEATURES, POD_COLUMN

GATES = ("no GPU", "share", "share x its size", "one GPU", "several GPUs")
STATES = ("any node", "empty node")
_EMPTY = NODE_COLUMN["empty"]
_REQUEST = POD_COLUMN["gpu_request"]
_SHARE = POD_COLUMN["gpu_share"]
_GPUS_PER_REQUEST = 8.0  # the feature counts GPUs in eighths
_SHARPNESS = 100.0  # shares below 1 % count as none, above 99 % as a whole GPU, in part


class GpuScorer(nn.Module):
    """score = sum over gates and features of gate(pod) x (weight + weight if empty) x feature, rounded down."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(len(STATES), len(GATES), len(NODE_FEATURES)))

    def forward(self, nodes: Tensor, pod: Tensor, mask: Tensor) -> Tensor:
        """(batch, nodes, features), (batch, features), (batch, nodes) to scores (batch, nodes); 0 off the mask."""
        # in float32 a sum near a whole number would fall to one side here and to the other in ONNX
        exact, chosen, weights = nodes.double(), gates(pod).double(), self.weights.double()
        always = exact @ (chosen @ weights[0]).unsqueeze(-1)
        if_empty = exact @ (chosen @ weights[1]).unsqueeze(-1)
        scores = torch.floor(always + exact[..., _EMPTY, None] * if_empty).squeeze(-1)
        return scores.to(nodes.dtype) * mask.to(nodes.dtype)


def gates(pod: Tensor) -> Tensor:
    """How much each kind of request a pod is, (..., features) to (..., gates); all but the third sum to 1."""
    share, gpus = pod[..., _SHARE], pod[..., _REQUEST] * _GPUS_PER_REQUEST
    none = torch.relu(1.0 - _SHARPNESS * share)
    whole = torch.relu(1.0 - _SHARPNESS * (1.0 - share))
    several = torch.clamp(gpus - 1.0, 0.0, 1.0)
    part = 1.0 - none - whole
    return torch.stack((none, part, part * share, whole - several, several), dim=-1)
