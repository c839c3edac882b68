from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from agent.errors import InputError
from envs.workloads.dlrm import INSTANCES_FILE, read_dlrm


def test_pods_come_in_order_of_arrival_with_initial_ones_first(tiny: Path) -> None:
    pods = read_dlrm(tiny / INSTANCES_FILE)
    assert pods.names == ("there", "leaving", "early", "twin", "late")
    assert pods.initial.tolist() == [True, True, False, False, False]
    assert pods.arrival_s.tolist() == [0, 0, 100, 110, 900]
    assert pods.duration_s.tolist() == [np.inf, 700, np.inf, 300, 600]


def test_requests_have_our_units(tiny: Path) -> None:
    pods = read_dlrm(tiny / INSTANCES_FILE, nic_mbps=200_000)
    late = pods.names.index("late")
    assert pods.cpu_request_millicores[late] == 64_000
    assert pods.memory_request_mib[late] == 320 * 1024
    assert pods.network_request_mbps[late] == pytest.approx(2_000)
    assert pods.app_names[pods.app[late]] == "app_b"
    assert pods.wait_s[late] == 5
    assert np.isinf(pods.max_per_node[late])
    assert pods.on_gpu_node.tolist() == [True, True, False, False, False]


def test_pod_that_ends_before_it_begins_is_named_or_left_out_and_counted(tiny: Path, tmp_path: Path) -> None:
    text = gzip.decompress((tiny / INSTANCES_FILE).read_bytes()).decode().replace("110.0,410.0", "110.0,90.0")
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(InputError, match=r"x\.csv:6: column 'deletion_time': '90.0' is before 'creation_time'"):
        read_dlrm(tmp_path / "x.csv")
    pods = read_dlrm(tmp_path / "x.csv", skip_bad=True)
    assert pods.names == ("there", "leaving", "early", "late")
    assert pods.bad_rows == 1


def test_more_than_a_whole_nic_is_refused(tiny: Path, tmp_path: Path) -> None:
    text = gzip.decompress((tiny / INSTANCES_FILE).read_bytes()).decode().replace("1,1,30,30", "1,1,101,30")
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(InputError, match=":3: column 'rdma_request': '101' is above 100"):
        read_dlrm(tmp_path / "x.csv")
