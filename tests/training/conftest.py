"""A world small enough to be played in an instant."""

from __future__ import annotations

import pytest

from envs.workloads.scenario import LogNormal, Scenario, Span, load_scenario


@pytest.fixture(scope="session")
def small() -> Scenario:
    """Four nodes with much room and short-lived pods: each finds a node at once, whoever decides."""
    world = load_scenario("microservices")
    calm = {"load": Span(low=0.25, high=0.3), "duration_s": LogNormal(median=40, sigma=0.5), "burst_size": 3.0}
    return world.model_copy(
        update={
            "name": "small",
            "nodes": world.nodes.model_copy(update={"count": Span(low=4, high=4)}),
            "arrivals": world.arrivals.model_copy(update=calm),
            "horizon_s": 300.0,
        }
    )
