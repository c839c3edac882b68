"""What LiveClusterEnv says of itself; what it does, tests/cluster/test_live_env.py shows on a real cluster."""

from __future__ import annotations

import re

from agent.features import NODE_FEATURES, POD_FEATURES
from envs.live_env import LiveClusterEnv


def test_the_documentation_names_the_features_and_counts_none_of_them() -> None:
    """A number would be wrong with the next feature."""
    words = str(LiveClusterEnv.__doc__)
    assert "NODE_FEATURES" in words
    assert "POD_FEATURES" in words
    assert not re.search(r"Box\(|schema version", words)
    space = LiveClusterEnv(max_nodes=3).observation_space
    assert space["nodes"].shape == (3, len(NODE_FEATURES))
    assert space["pod"].shape == (len(POD_FEATURES),)
