"""What the peers' scheduler is told is true of the tape."""

import pytest

from envs.workloads.scenario import load_scenario
from envs.workloads.synthetic import make_tape
from tests.cluster.peers import app_group, network_topology


@pytest.fixture(scope="module")
def tape():
    return make_tape(load_scenario("bursts"), 0, 0)


def test_the_topology_has_a_cost_above_the_own_zones_for_every_other_one(tape):
    [weights] = network_topology(tape, "apps")["spec"]["weights"]
    [by_zone] = weights["topologyList"]
    costs = {
        (origin["origin"], cost["destination"]): cost["networkCost"]
        for origin in by_zone["originList"]
        for cost in origin["costList"]
    }
    assert costs == {("zone-0", "zone-1"): 3, ("zone-1", "zone-0"): 3}  # a round trip of 1.74 ms


def test_an_app_that_talks_depends_on_itself_and_others_on_nobody(tape):
    members = app_group(tape, "apps")["spec"]["workloads"]
    talking = [f"app-{app:02d}" for app in range(tape.app_slots) if tape.app_sibling_mbps[app] > 0]
    assert 0 < len(talking) < tape.app_slots
    assert [member["workload"]["selector"] for member in members] == talking
    assert all(member["dependencies"][0]["workload"] == member["workload"] for member in members)
