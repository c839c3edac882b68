"""``pilotfish benchmark scheduler`` in small: a round of every form, on the control plane of the other tests."""

import pytest

from benchmarks.throughput.forms import CONSTANT, FORMS, FULL_NODES, NONE, POLICY, RANK_ONLY
from benchmarks.throughput.measuring import NodePages, measured_nodes, wait_until_measured
from benchmarks.throughput.rounds import a_round
from tests.cluster.objects import nodes_by_pod

PODS = 12


@pytest.fixture
def prometheus(control_plane, nodes):
    pages = NodePages(nodes)
    with measured_nodes(control_plane.processes, pages, scrape_every_s=0.5) as running:
        wait_until_measured(running, pages)
        yield running.url


@pytest.mark.timeout(180)
def test_a_round_of_every_form_binds_its_pods_and_leaves_none(control_plane, nodes, namespace, prometheus, say):
    rounds = {form: a_round(control_plane, namespace, 4, form, PODS, prometheus) for form in FORMS}
    say(f"throughput in small: {', '.join(f'{form} {each.pods_per_s:.0f} pods/s' for form, each in rounds.items())}")
    assert all(each.pods_per_s > 0 and each.algorithm_ms > 0 for each in rounds.values())
    assert all(0 < each.running_per_s <= each.pods_per_s for each in rounds.values()), "none runs before it is bound"
    assert all(0 <= each.left_share <= 1 for each in rounds.values())
    for form in (POLICY, RANK_ONLY, FULL_NODES):
        assert rounds[form].candidates == len(nodes)
        assert rounds[form].policy_share > 0.5, "what is timed is the policy"
    assert (rounds[NONE].beside_cpu_ms, rounds[CONSTANT].candidates) == (0.0, None)
    assert nodes_by_pod(control_plane.admin, namespace) == {}
