"""A node that is no candidate changes nothing: the sidecar scores the candidates alone, as if there were no others."""

import numpy as np
import pytest

from agent.cluster import Pod
from agent.demand import ObservedDemand, Use, demand_of
from agent.heuristics.registry import SCORERS, scorer_by_name
from benchmarks.extender.cluster import standing_state
from models.manifest import RELEASED
from models.onnx_scorer import OnnxScorer

NODES = 60
POD = Pod(uid="u", name="web", app="shop", cpu_request_millicores=500, memory_request_bytes=2**29)
CHANCE = {"random"}  # its draws go by the place of a node
EQUAL = {"neutral", "fgd", "dot_product"}  # the last two tell GPUs apart, and there are none


@pytest.mark.parametrize("name", [*sorted(SCORERS.keys() - CHANCE), "policy"])
def test_the_candidates_alone_are_scored_as_among_all(name):
    scorer = OnnxScorer.load(RELEASED / "default") if name == "policy" else scorer_by_name(name)
    rng = np.random.default_rng(3)
    state, siblings = standing_state(NODES, rng), rng.integers(0, 3, NODES).astype(float)
    demand = demand_of(POD, ObservedDemand(cluster=Use(20.0, 10.0, 0.6, 0.7)), state, siblings, 4)
    candidates = rng.random(NODES) < 0.4
    places = np.flatnonzero(candidates)
    among_all = scorer.score(state, demand, candidates)[places]
    alone = scorer.score(state.take(places), demand.take(places), np.ones(len(places), dtype=bool))
    np.testing.assert_allclose(alone, among_all, rtol=1e-5, atol=1e-5)
    assert name in EQUAL or np.ptp(alone) > 0, "a scorer to which all are equal proves nothing"
