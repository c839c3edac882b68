"""What the tests of the heuristics share."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def score(make_state, make_demand):
    """Scores of a scorer for the columns given; ``candidates`` are all nodes unless said otherwise."""

    def of(scorer, state=None, demand=None, candidates=None):
        state = make_state(**state or {})
        demand = make_demand(state.node_count, **demand or {})
        everyone = np.ones(state.node_count, dtype=np.bool_)
        return scorer.score(state, demand, everyone if candidates is None else np.asarray(candidates))

    return of
