"""What scraped metrics tell of the costs, from states written as plain numbers."""

from __future__ import annotations

import numpy as np
import pytest

from envs.dynamics.costs import TERM
from envs.live_costs import SEEN, CostMeter, Look
from tests.agent.conftest import build_demand, build_state

NODES = ("a", "b")
POD = build_demand(2, expected_cpu_millicores=500, expected_rx_mbps=200, expected_tx_mbps=0)


def look(**columns) -> Look:
    return Look(NODES, build_state(2, **columns))


def rate(meter: CostMeter, seen: Look, term: str) -> float:
    return float(meter.rates(seen)[TERM[term]])


def test_a_nic_that_is_full_after_the_pod_came_lacks_what_does_not_fit() -> None:
    meter = CostMeter()
    full = look(rx_mbps=[990, 100])
    meter.placed("a", look(rx_mbps=[900, 100]), full, POD)
    assert rate(meter, full, "network_loss") == pytest.approx((900 + 200 - 1000) / 8000)


def test_the_next_pod_on_a_full_nic_adds_all_of_its_traffic() -> None:
    meter = CostMeter()
    full = look(rx_mbps=[1000, 100])
    meter.placed("a", look(rx_mbps=[900, 100]), full, POD)
    meter.placed("a", full, full, POD)
    assert rate(meter, full, "network_loss") == pytest.approx((100 + 200) / 8000)


def test_a_nic_that_is_no_longer_full_lacks_nothing_and_does_not_remember() -> None:
    meter = CostMeter()
    full, free = look(rx_mbps=[1000, 100]), look(rx_mbps=[600, 100])
    meter.placed("a", look(rx_mbps=[900, 100]), full, POD)
    assert rate(meter, free, "network_loss") == 0.0
    assert rate(meter, full, "network_loss") == 0.0


@pytest.mark.parametrize("after", [{"rx_mbps": [800, 100]}, {"rx_mbps": [np.nan, 100]}, {"nic_mbps": [np.nan, 1000]}])
def test_without_a_full_nic_in_the_metrics_nothing_is_lost(after) -> None:
    meter = CostMeter()
    meter.placed("a", look(rx_mbps=[950, 100]), look(**after), POD)
    assert rate(meter, look(**after), "network_loss") == 0.0


def test_a_full_cpu_throttles() -> None:
    meter = CostMeter()
    full = look(cpu_used_millicores=[3990, 0])
    meter.placed("a", look(cpu_used_millicores=[3800, 0]), full, POD)
    assert rate(meter, full, "cpu_throttling") == pytest.approx((3800 + 500 - 4000) / 1000)


def test_nodes_may_have_changed_their_places_meanwhile() -> None:
    meter = CostMeter()
    after = Look(("c", "a"), build_state(2, rx_mbps=[100, 1000]))
    meter.placed("a", look(rx_mbps=[900, 100]), after, POD)
    assert rate(meter, after, "network_loss") == pytest.approx(100 / 8000)


def test_what_the_state_shows_is_read_off_it() -> None:
    seen = look(
        pods_running=[2, 0],
        price_usd_per_hour=[0.36, 0.36],
        power_idle_watts=[50, 50],
        power_peak_watts=[150, 150],
        cpu_used_millicores=[2000, 0],
        rx_mbps=[0, np.nan],
        tx_mbps=[0, np.nan],
        cpu_requested_millicores=[2000, 0],
    )
    meter = CostMeter()
    assert rate(meter, seen, "money") == pytest.approx(0.0001)  # the empty node is given back
    assert rate(meter, seen, "energy") == pytest.approx(100 / 3.6e6)
    assert rate(meter, seen, "fragmentation") == pytest.approx(2.0)
    assert rate(meter, seen, "imbalance") == pytest.approx(0.25)


def test_terms_that_nobody_sees_are_zero() -> None:
    busy = look(rx_mbps=[1000, 0], cpu_used_millicores=[4000, 0], pods_running=[5, 5], price_usd_per_hour=[1, 1])
    rates = CostMeter().rates(busy)
    assert {name for name, index in TERM.items() if rates[index] > 0} <= set(SEEN)
