"""What a soak must show; test_soak.py is the soak itself."""

import pytest

from tests.cluster.soaking import faults_of

GOOD = {
    "pods": 1990,
    "decisions": 1990.0,
    "policy_share": 0.95,
    "memory_growth_mb": 4.9,
    "descriptors_added": 2,
    "threads_added": 2,
    "most_assumed_beyond_pods": 100,
}


def test_a_run_within_every_limit_is_without_fault():
    assert faults_of(GOOD, planned_pods=2000) == []


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ({"pods": 1979}, "1979 of 2000 pods created"),
        ({"decisions": 1989.0}, "1989 decisions about 1990 pods"),
        ({"policy_share": 0.89}, "0.890 of them by the policy"),
        ({"memory_growth_mb": 5.1}, "5.1 MB of memory added"),
        ({"descriptors_added": 3}, "3 file descriptors added"),
        ({"threads_added": 3}, "3 threads added"),
        ({"most_assumed_beyond_pods": 101}, "101 pods assumed beyond"),
    ],
)
def test_what_is_beyond_a_limit_is_named(odd, said):
    assert faults_of(GOOD | odd, planned_pods=2000) == [said]
