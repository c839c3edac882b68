from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agent.errors import InputError
from envs.workloads.openb import accepts, read_openb_nodes, read_openb_pods

HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"


def test_nodes_have_our_units_and_may_lack_gpus(tiny: Path) -> None:
    nodes = read_openb_nodes(tiny / "openb/openb_node_list_gpu_node.csv")
    assert nodes.names == ("node-a", "node-b", "node-c")
    assert nodes.cpu_millicores.tolist() == [50_000, 90_000, 30_000]
    assert nodes.memory_mib.tolist() == [200_000, 300_000, 100_000]
    assert nodes.gpus.tolist() == [2, 8, 0]
    assert nodes.model.tolist() == ["P100", "G2", ""]


def test_pods_of_a_packed_list_keep_their_times(tiny: Path) -> None:
    pods = read_openb_pods(tiny / "openb/openb_pod_list_timed_default.csv.gz")
    assert pods.gpu_request_milli.tolist() == [1_000, 880, 0]
    assert pods.gpu_models.tolist() == ["", "P100|G2", ""]
    assert pods.creation_s.tolist() == [0, 150, 200]
    assert pods.deletion_s.tolist() == [700, 2_000, 260]
    assert np.isnan(pods.scheduled_s).tolist() == [False, False, True]


def test_lists_of_requests_alone_are_read_with_unknown_times_and_any_model(tiny: Path) -> None:
    pods = read_openb_pods(tiny / "openb/openb_pod_list_requests.csv")
    assert len(pods) == 3
    assert pods.cpu_request_millicores.tolist() == [10_000, 5_000, 3_000]
    assert pods.memory_request_mib.tolist() == [20_000, 9_000, 7_000]
    assert np.isnan(pods.creation_s).all()
    assert pods.gpu_models.tolist() == ["", "", ""]


def test_gpu_models_of_a_pod_without_gpus_mean_nothing(tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text(f"{HEADER}a,1,1,0,0,T4\nb,1,1,1,500,T4|P100\n")
    assert read_openb_pods(tmp_path / "pods.csv").gpu_models.tolist() == ["", "T4|P100"]


@pytest.mark.parametrize(
    ("gpu_models", "model", "taken"),
    [("", "T4", True), ("T4|P100", "P100", True), ("T4|P100", "P10", False), ("|T4|", "G2", False), ("|", "G2", True)],
)
def test_listed_models_are_accepted_and_an_empty_list_accepts_any(gpu_models: str, model: str, taken: bool) -> None:
    assert accepts(gpu_models, model) is taken


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("b,1,1,9,1000,", "pods.csv:3: column 'num_gpu': '9' is above 8"),
        ("b,1,1,1,1001,", "pods.csv:3: column 'gpu_milli': '1001' is above 1000"),
        ("b,-1,1,1,1000,", "pods.csv:3: column 'cpu_milli': '-1' is negative"),
        ("b,1,much,1,1000,", "pods.csv:3: column 'memory_mib': 'much' is not a number"),
        ("b,1,1,1,0,", "pods.csv:3: column 'gpu_milli': '0' is no share of a GPU"),
        ("b,1,1", "pods.csv:3: 3 fields where the header has 6"),
    ],
)
def test_malformed_pods_are_refused_with_file_line_and_column_or_counted(
    tmp_path: Path, row: str, complaint: str
) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(f"{HEADER}a,1,1,0,0,\n{row}\nc,1,1,1,500,\n")
    with pytest.raises(InputError) as refused:
        read_openb_pods(path)
    assert complaint in str(refused.value)
    pods = read_openb_pods(path, skip_bad=True)
    assert pods.names == ("a", "c")
    assert pods.bad_rows == 1


def test_a_node_of_more_gpus_than_slots_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text("sn,cpu_milli,memory_mib,gpu,model\na,1,1,16,T4\n")
    with pytest.raises(InputError, match=r"nodes\.csv:2: column 'gpu': '16' is above 8"):
        read_openb_nodes(path)
    with pytest.raises(InputError, match="has no node"):
        read_openb_nodes(path, skip_bad=True)


def test_a_list_without_pods_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text(HEADER)
    with pytest.raises(InputError, match="has no pod"):
        read_openb_pods(tmp_path / "pods.csv")


def test_real_lists_hold_what_their_origin_says(traces: Path) -> None:
    nodes = read_openb_nodes(traces / "openb/openb_node_list_gpu_node.csv")
    assert (len(nodes), nodes.gpus.sum()) == (1_213, 6_212)
    lists = sorted((traces / "openb").glob("openb_pod_list_*.csv*"))
    assert lists
    assert all(len(read_openb_pods(path)) > 7_000 for path in lists)
