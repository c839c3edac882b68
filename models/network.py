"""The network of the policy: one small program for every node, and what all candidates have in common.

Nodes have no order and no fixed number, so every node goes through the same layers, and what it must know of the
others comes through pools over the candidates: permuting nodes permutes the scores, one node more changes no shape,
and a node that is no candidate changes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from agent.cluster import FloatArray
from agent.features import NODE_COLUMN, NODE_FEATURES, POD_FEATURES

_MISSING = NODE_COLUMN["metric_missing"]


class Embedding(NamedTuple):
    nodes: Tensor  # (batch, nodes, hidden)
    heads: Tensor  # (batch, heads): how much each counts


class NodeScorer(nn.Module):
    """Scores of nodes: ``nodes`` (batch, nodes, features), ``pod`` (batch, features), ``mask`` (batch, nodes).

    score = sharpness x a linear rule + a network that starts at zero: with a good rule (the first of ``priors``,
    (heads, features)) learning starts from there, without one it starts from equal scores. Rule and last layer are the
    head. Further heads are specialists, which take over where a gate finds that the pod and the candidates look like
    their world (training/specialists.py). What comes out at nodes outside the mask means nothing.
    """

    def __init__(self, hidden: int = 64, priors: FloatArray | None = None, sharpness: float = 1.0) -> None:
        super().__init__()
        self.hidden = hidden
        self.from_node = nn.Linear(len(NODE_FEATURES), hidden)
        self.from_pod = nn.Linear(len(POD_FEATURES), hidden, bias=False)
        self.onward = nn.Linear(hidden, hidden)
        self.from_pool = nn.Linear(2 * hidden, hidden, bias=False)
        heads = 1 if priors is None else len(priors)
        self.score = nn.Linear(hidden, heads, bias=False)
        self.rule = nn.Linear(len(NODE_FEATURES), heads, bias=False)
        self.gate = nn.Linear(2 * hidden, heads, bias=False)
        self.sharpness = nn.Parameter(torch.tensor(float(sharpness)))
        for zero in (self.score, self.rule, self.gate):
            nn.init.zeros_(zero.weight)
        if priors is not None:
            self.rule.weight.data.copy_(torch.as_tensor(priors))

    def embed(self, nodes: Tensor, pod: Tensor, mask: Tensor) -> Embedding:
        """What is known of each node in the light of the pod and the other candidates."""
        first = self._first(nodes, pod)
        together = pooled(first, mask)
        each = torch.relu(self.onward(first) + self.from_pool(together).unsqueeze(1))
        return Embedding(each, torch.softmax(self.gate(together), dim=-1))

    def together(self, nodes: Tensor, pod: Tensor, mask: Tensor) -> Tensor:
        """What the gate sees, (batch, 2 x hidden)."""
        return pooled(self._first(nodes, pod), mask)

    def _first(self, nodes: Tensor, pod: Tensor) -> Tensor:
        return torch.relu(self.from_node(nodes) + self.from_pod(pod).unsqueeze(1))

    def from_embedding(self, embedding: Embedding, nodes: Tensor) -> Tensor:
        by_head = self.sharpness * self.rule(nodes) + self.score(embedding.nodes)  # (batch, nodes, heads)
        scores: Tensor = (by_head @ embedding.heads.unsqueeze(-1)).squeeze(-1)
        return scores

    def forward(self, nodes: Tensor, pod: Tensor, mask: Tensor) -> Tensor:
        return self.from_embedding(self.embed(nodes, pod, mask), nodes)


class Critic(nn.Module):
    """What is still to be paid, from the same embedding; its errors do not move the scorer."""

    def __init__(self, hidden: int = 64) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2 * hidden + len(POD_FEATURES), hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, embedding: Tensor, pod: Tensor, mask: Tensor) -> Tensor:
        together = torch.cat([pooled(embedding, mask), pod], dim=-1).detach()
        value: Tensor = self.layers(together).squeeze(-1)
        return value


def pooled(rows: Tensor, mask: Tensor) -> Tensor:
    """Mean and maximum over the candidates, (batch, 2 x hidden); 0 where there is none. ``rows`` are not negative."""
    inside = rows * mask.unsqueeze(-1).to(rows.dtype)
    count = mask.to(rows.dtype).sum(dim=1, keepdim=True).clamp(min=1.0)
    return torch.cat([inside.sum(dim=1) / count, inside.amax(dim=1)], dim=-1)


def usable(nodes: Tensor, mask: Tensor) -> Tensor:
    """Candidates that the sidecar would choose: one without metrics is held at the median, unless all are."""
    seen = mask & (nodes[..., _MISSING] < 0.5)
    return torch.where(seen.any(dim=-1, keepdim=True), seen, mask)
