"""The page about the features, made from their tables: what a model reads is never described twice."""

from __future__ import annotations

from agent.features import NODE_FEATURES, POD_FEATURES, RATIO_LIMIT, SCHEMA_VERSION, SENT_OUTSIDE, STALE_AFTER_S

INTRODUCTION = f"""# Features

What a policy sees, in training and in the sidecar alike: schema version {SCHEMA_VERSION}. A model of another version is
refused. This page is `agent.feature_docs.as_markdown()`; a test keeps it equal to the code, and another one asks for a
new version whenever a name, an order, a unit or a formula changes.

- One row per node and one for the pod, as 32-bit floats, finite everywhere. Rows of nodes that are no candidates are 0.
- Means and largest values are taken over the candidates of this pod.
- Measured and expected ratios end at {RATIO_LIMIT:g}.
- A metric that is missing, or older than {STALE_AFTER_S:g} s, is the mean ratio of the candidates that have it, and
  `metric_missing` says so. An unknown NIC speed is the candidates' mean, and `nic_unknown` says so.
- Rates are means over a window, and late. *Corrected by who came and went*: the expected use of placements that the
  metrics do not show yet is added, what they still show of pods that have left is taken away, never more than was
  measured. *Expected* of the pod is its annotation, else what its siblings use, else the namespace's mean, else the
  cluster's.
- *Siblings* are the running pods of the same app. *Sibling traffic* is what the pod declares, else what of its expected
  traffic goes both ways: outside, a service sends {SENT_OUTSIDE:.0%} of its traffic and receives the rest, in the mean.
"""


def as_markdown() -> str:
    """docs/features.md."""
    tables = {"Of every node": NODE_FEATURES, "Of the pod and the cluster": POD_FEATURES}
    return "\n".join([INTRODUCTION, *(_table(title, features) for title, features in tables.items())])


def _table(title: str, features: dict[str, str]) -> str:
    rows = [f"| {column} | `{name}` | {meaning} |" for column, (name, meaning) in enumerate(features.items())]
    return "\n".join([f"## {title}", "", "| column | name | meaning |", "|---|---|---|", *rows, ""])
