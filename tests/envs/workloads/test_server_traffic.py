from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent.errors import InputError
from envs.workloads.server_traffic import (
    SERVERS_FILE,
    TRAFFIC_FILE,
    background_from_server_traffic,
    read_server_traffic,
)


def test_rates_are_in_megabits_and_servers_matched_by_name(tiny: Path) -> None:
    trace = read_server_traffic(tiny / TRAFFIC_FILE, tiny / SERVERS_FILE)
    assert trace.servers == ("srv-1", "srv-2")
    assert trace.nic_mbps.tolist() == [800_000, 400_000]
    assert trace.leaf_group.tolist() == [1, 2]
    assert trace.rx_mbps[:, 0].tolist() == [80_000, 160_000, 80_000]


def test_background_is_a_share_of_each_servers_own_nic(tiny: Path) -> None:
    trace = read_server_traffic(tiny / TRAFFIC_FILE, tiny / SERVERS_FILE)
    trace = replace(trace, rx_mbps=trace.rx_mbps + np.array([0, 4_000]))
    series = background_from_server_traffic(trace, 2, 100, np.random.default_rng(0))
    assert series.rx_ratio.shape == (11, 2)  # longer than the trace
    assert series.rx_ratio.max() == pytest.approx(0.2)
    assert series.rx_ratio.min() == pytest.approx(0.01)
    assert sorted(series.tx_ratio[0].tolist()) == pytest.approx([0.0, 0.05])
    assert not series.cpu_ratio.any()


def test_server_without_description_is_named_or_left_out_and_counted(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "servers.csv").write_text("server,leaf_group,nic_gbps\nsrv-1,1,800\n")
    with pytest.raises(InputError, match=r":\d+: column 'server': 'srv-2' has no row in .*servers\.csv"):
        read_server_traffic(tiny / TRAFFIC_FILE, tmp_path / "servers.csv")
    trace = read_server_traffic(tiny / TRAFFIC_FILE, tmp_path / "servers.csv", skip_bad=True)
    assert trace.servers == ("srv-1",)
    assert trace.bad_rows > 0


def test_zero_nic_speed_is_refused(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "servers.csv").write_text("server,leaf_group,nic_gbps\nsrv-1,1,0\nsrv-2,1,800\n")
    with pytest.raises(InputError, match=":2: column 'nic_gbps': '0' is below"):
        read_server_traffic(tiny / TRAFFIC_FILE, tmp_path / "servers.csv")
