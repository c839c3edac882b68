"""200 pods under arrival while a part fails: each bound, none twice, none where it did not fit, no restart by hand.

`make test` runs the most telling faults, some of them shorter and with fewer pods; `make faults` runs all as they are
and keeps what it measured.
"""

import os

import pytest

from benchmarks.report import origin
from tests.cluster.enduring import endure
from tests.cluster.faults import FAULTS
from tests.cluster.proving_ground import proving_ground
from tests.cluster.results import FAULTS as PAGE
from tests.cluster.results import keep

pytestmark = pytest.mark.slow

FULL = os.environ.get("PILOTFISH_FAULTS") == "full"
PODS = 200 if FULL else 60
CHOSEN = [fault for fault in FAULTS if FULL or fault.short_s is not None]


@pytest.fixture(scope="module")
def outcomes():
    """What was measured; kept when it is all that there is."""
    began, measured = origin(), []
    yield measured
    if len(measured) == len(FAULTS):
        keep(PAGE, [outcome.as_json() for outcome in measured], began)


@pytest.fixture(scope="module")
def ground(new_processes):
    with new_processes("faults") as processes, proving_ground(processes) as running:
        yield running


@pytest.fixture
def empty_ground(ground):
    yield ground
    ground.clear()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", CHOSEN, ids=lambda fault: fault.name)
def test_every_pod_is_bound_once_and_where_it_fits(empty_ground, outcomes, fault, say):
    outcome = endure(empty_ground, fault, fault.lasts_s if FULL else fault.short_s, PODS)
    outcomes.append(outcome)
    say(f"fault: {outcome}")
    assert not outcome.wrong
