from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from agent.errors import InputError
from envs.workloads.carrying import asked_mbps
from envs.workloads.replay import MOST_APP_LOAD, SUB_FOLDERS, TraceFolder
from envs.workloads.scenario import Scenario, load_scenario, scenario_names
from envs.workloads.synthetic import make_tape
from envs.workloads.tape import AXES, PODS, Tape

Part = Callable[..., TraceFolder]
BUSY = {"loads": {"background_network": {"low": 0.1, "high": 0.2}, "background_idle": 0}}
LARGE = {"nodes": {"count": {"low": 4, "high": 100}}}
SITES = {"nodes": {"zones": 5, "zone_rtt_ms": {"low": 8, "high": 30}}}
ROOMY = {"loads": {"network_peak": 1000}}  # NICs for whatever they are asked for
GPU_NODE = {"cpu_cores": 8, "memory_gib": 64, "gpus": 2}


@pytest.fixture
def part(tiny: Path, tmp_path: Path) -> Part:
    """The tiny traces folder, cut down to some of its sub-folders."""

    def cut(*names: str, skip_bad: bool = False) -> TraceFolder:
        for name in names:
            shutil.copytree(tiny / name, tmp_path / name, dirs_exist_ok=True)
        return TraceFolder(tmp_path, skip_bad)

    return cut


def played(folder: TraceFolder, scenario: Scenario, index: int = 0, seed: int = 0) -> tuple[Tape, Tape]:
    """The synthetic tape, and what the folder makes of it."""
    tape = make_tape(scenario, seed, index)
    return tape, folder.applied(scenario, tape, seed, index)


def changed_columns(before: Tape, after: Tape) -> set[str]:
    pairs = ((name, getattr(before, name), getattr(after, name)) for name in vars(before))
    return {name for name, old, new in pairs if not np.array_equal(old, new, equal_nan=old.dtype.kind == "f")}


def series_of(values: np.ndarray) -> set[tuple[float, ...]]:
    """The series of every node or app, each once."""
    return {tuple(series) for series in values.T.astype(np.float64).round(3).tolist()}


def pods_of(tape: Tape, *columns: str) -> list[tuple[float, ...]]:
    return list(zip(*(getattr(tape, name).tolist() for name in columns), strict=True))


# --- the world as a whole


def test_the_same_seed_and_index_give_the_same_world(tiny: Path, tiny_scenario) -> None:
    scenario = tiny_scenario(**LARGE)
    _, one = played(TraceFolder(tiny), scenario)
    folder = TraceFolder(tiny)
    played(folder, scenario, index=1)  # what was asked for before must not matter
    _, other = played(folder, scenario)
    assert changed_columns(one, other) == set()
    assert "app_load" in changed_columns(one, played(folder, scenario, seed=1)[1])


def test_a_folder_more_leaves_the_other_parts_as_they_were(part: Part, tiny_scenario) -> None:
    _, one = played(part("bitbrains"), tiny_scenario(**ROOMY))
    _, more = played(part("bitbrains", "k8s_nezha", "latency"), tiny_scenario(**ROOMY))
    assert changed_columns(one, more) == {"app_load", "zone_rtt_ms"}


def test_nics_are_made_for_the_loads_that_were_exchanged(part: Part, tiny_scenario) -> None:
    folder = part("bitbrains", "k8s_nezha")
    asked = []
    for scenario in (tiny_scenario(), tiny_scenario(**ROOMY)):
        _, tape = played(folder, scenario)
        most = max((pods + beside).max() for pods, beside in asked_mbps(vars(tape)))
        asked.append(most / tape.node_nic_mbps.sum())
    assert asked[0] == pytest.approx(0.8, rel=1e-3)
    assert asked[1] > 0.8


def test_files_are_found_by_their_kind_and_not_by_a_date_in_their_name(
    tiny: Path, tmp_path: Path, tiny_scenario
) -> None:
    for source in tiny.rglob("*.csv*"):
        target = tmp_path / source.parent.name / source.name.replace("2022-08-22", "other").replace("14d", "7d")
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(source.read_bytes())
    scenario = tiny_scenario(**LARGE)
    assert changed_columns(played(TraceFolder(tiny), scenario)[1], played(TraceFolder(tmp_path), scenario)[1]) == set()


def test_result_names_every_file_that_was_read_by_its_digest(part: Part, tmp_path: Path, tiny_scenario) -> None:
    folder = part("latency", "dlrm2025")
    played(folder, tiny_scenario())
    before = folder.provenance()["files"]
    assert list(before) == ["latency/rtt_inter_az.csv"]
    path = tmp_path / "latency/rtt_inter_az.csv"
    path.write_text(path.read_text().replace("1.4", "1.5"))
    again = TraceFolder(tmp_path)
    played(again, tiny_scenario())
    assert again.provenance()["files"] != before


def test_a_file_is_read_once(part: Part, tiny_scenario, tmp_path: Path) -> None:
    folder = part("latency")
    played(folder, tiny_scenario())
    (tmp_path / "latency/rtt_inter_az.csv").write_text("no table any more")
    played(folder, tiny_scenario(), index=1)


# --- background


def test_nodes_take_the_cpu_of_vms_five_times_as_fast(part: Part, tiny_scenario) -> None:
    _, tape = played(part("bitbrains"), tiny_scenario())
    cpu = tape.background_cpu_ratio[[0, 6, 12]]  # every 60 s of the world, 5 minutes of the trace
    assert series_of(cpu) == {(0.1, 0.2, 0.9), (0.5, 0.5, 0.6)}  # never above 0.9


def test_traffic_of_vms_moves_about_the_level_of_the_scenario(part: Part, tiny_scenario) -> None:
    before, after = played(part("bitbrains"), tiny_scenario(**BUSY))
    multiple = after.background_rx_ratio[[0, 6, 12]] / before.background_rx_ratio.mean(axis=0)
    assert series_of(multiple) == {(1.0, 2.0, 0.0), (0.8, 0.8, 1.6)}


def test_every_other_world_takes_its_traffic_from_servers_and_keeps_its_own_cpu(part: Part, tiny_scenario) -> None:
    folder = part("bitbrains", "gpu_cluster_net")
    assert "background_cpu_ratio" in changed_columns(*played(folder, tiny_scenario(), index=2))
    before, after = played(folder, tiny_scenario(**ROOMY), index=3)
    assert changed_columns(before, after) == {"background_rx_ratio", "background_tx_ratio"}
    assert series_of(after.background_tx_ratio[[0, 5, 10]]) == {(0.0, 0.0, 0.0), (0.05, 0.05, 0.05)}


def test_with_one_source_of_background_every_world_takes_it(part: Part, tiny_scenario) -> None:
    folder = part("gpu_cluster_net")
    for index in range(2):
        assert "background_rx_ratio" in changed_columns(*played(folder, tiny_scenario(), index=index))


# --- loads of the apps, distances


def test_apps_take_the_shape_of_services(part: Part, tiny_scenario, tmp_path: Path) -> None:
    folder = part("k8s_nezha")
    (tmp_path / "k8s_nezha/trainticket_2023-01-29_pods.csv.gz").unlink()
    before, after = played(folder, tiny_scenario())
    assert changed_columns(before, after) == {"app_load"}
    assert after.app_load.shape == before.app_load.shape
    ends = np.sort(after.app_load, axis=0)[[0, -1]]
    assert series_of(ends) == {
        (0.5, 1.5),
        (1.0, 1.0),
        (0.667, 1.333),
    }  # requests, steady requests, traffic without requests


def test_a_service_that_is_hardly_ever_called_does_not_explode(part: Part, tiny_scenario, tmp_path: Path) -> None:
    folder = part("k8s_nezha")
    (tmp_path / "k8s_nezha/trainticket_2023-01-29_pods.csv.gz").unlink()
    path = tmp_path / "k8s_nezha/onlineboutique_2022-08-22_pods.csv.gz"
    header, first, *_ = gzip.decompress(path.read_bytes()).decode().splitlines()
    rows = [first.replace("1600000279", str(1600000279 + 60 * k)) for k in range(20)]
    rows = [row.replace(",10,12.5,", f",{0 if k % 10 else 7},12.5,") for k, row in enumerate(rows)]
    path.write_bytes(gzip.compress("\n".join([header, *rows]).encode()))
    _, after = played(folder, tiny_scenario(horizon_s=1200))
    assert after.app_load.max() == MOST_APP_LOAD


def test_zones_are_as_far_apart_as_measured_in_one_region(part: Part, tiny_scenario) -> None:
    folder = part("latency")
    apart = {float(played(folder, tiny_scenario(), index=index)[1].zone_rtt_ms[0, 1]) for index in range(20)}
    assert apart == {1.2, 0.5, 0.6, 0.7}
    assert changed_columns(*played(folder, tiny_scenario())) == {"zone_rtt_ms"}


def test_far_sites_are_as_far_apart_as_regions_and_share_one_where_too_few_were_measured(
    part: Part, tiny_scenario
) -> None:
    scenario = tiny_scenario(**SITES)
    _, tape = played(part("latency"), scenario)
    rtt_ms = tape.zone_rtt_ms
    assert set(np.unique(rtt_ms)) == {scenario.nodes.same_zone_rtt_ms, 102.0, 200.0, 300.0}
    assert rtt_ms[0, 3] == rtt_ms[1, 4] == scenario.nodes.same_zone_rtt_ms
    np.testing.assert_array_equal(rtt_ms, rtt_ms.T)


# --- pods


def test_gpu_pods_ask_for_what_one_pod_of_the_list_asked_for_if_it_fits_a_node(part: Part, tiny_scenario) -> None:
    scenario = tiny_scenario(nodes={"kinds": [GPU_NODE]}, gpus={"share": 0.5})
    before, after = played(part("openb"), scenario)
    columns = ("pod_cpu_request_millicores", "pod_memory_request_mib", "pod_gpus", "pod_gpu_milli")
    asked = set(pods_of(after, *columns))
    assert asked == {(6000, 9000, 1, 460), (4000, 8000, 0, 1000)}  # the pod of 10 cores fits nowhere
    for name in columns[:2]:
        assert getattr(after, name).sum() <= 1.1 * getattr(before, name).sum()


def test_larger_pods_are_fewer_and_each_keeps_its_own_columns(part: Part, tiny_scenario) -> None:
    scenario = tiny_scenario(nodes={"kinds": [GPU_NODE]}, gpus={"share": 0.5})
    before, after = played(part("openb"), scenario)
    assert 0 < after.pod_slots < before.pod_slots
    kept = ("pod_arrival_s", "pod_duration_s", "pod_app", "pod_rx_mbps", "pod_start")
    assert set(pods_of(after, *kept)) < set(pods_of(before, *kept))
    assert {getattr(after, name).shape for name, (axes, _) in AXES.items() if PODS in axes} == {(after.pod_slots,)}


def test_another_list_serves_where_there_is_no_default_one(part: Part, tiny_scenario, tmp_path: Path) -> None:
    folder = part("openb")
    (tmp_path / "openb/openb_pod_list_default.csv.gz").unlink()
    (tmp_path / "openb/openb_pod_list_timed_default.csv.gz").unlink()
    _, after = played(folder, tiny_scenario(nodes={"kinds": [GPU_NODE]}, gpus={"share": 0.5}))
    assert set(after.pod_cpu_request_millicores.tolist()) == {5000, 3000}


def test_a_list_of_which_no_pod_fits_is_refused(part: Part, tiny_scenario) -> None:
    with pytest.raises(InputError, match="no pod of the list fits a node of scenario tiny"):
        played(part("openb"), tiny_scenario(nodes={"kinds": [{"cpu_cores": 2}]}, gpus={"share": 0.5}))


def test_large_fleets_keep_their_pods_and_take_the_pace_of_the_arrivals(part: Part, tiny_scenario) -> None:
    before, after = played(part("dlrm2025"), tiny_scenario(**LARGE))
    kept = ("pod_initial", "pod_app", "pod_duration_s", "pod_cpu_request_millicores", "pod_rx_mbps", "pod_start")
    assert sorted(pods_of(after, *kept)) == sorted(pods_of(before, *kept))
    came_s, comes_s = (tape.pod_arrival_s[~tape.pod_initial] for tape in (before, after))
    assert comes_s[[0, -1]].tolist() == came_s[[0, -1]].tolist()
    gaps_s = np.diff(comes_s.astype(np.float64))
    assert set(np.round(gaps_s / gaps_s.max(), 2)) == {1.0, 0.01}  # the trace has gaps of 10 and of 790 s


def test_pods_of_one_app_come_together_where_those_of_the_trace_did(part: Part, tiny_scenario, tmp_path: Path) -> None:
    folder = part("dlrm2025")
    path = tmp_path / "dlrm2025/dlrm_instances.csv.gz"
    header, row, *_ = gzip.decompress(path.read_bytes()).decode().splitlines()
    rows = [row.replace("app_b", f"app_{k // 20}").replace("900.0", f"{k}.0") for k in range(1000)]
    path.write_bytes(gzip.compress("\n".join([header, *rows]).encode()))
    scenario = tiny_scenario(**LARGE, arrivals={"bursts": 0})
    before, after = played(folder, scenario)

    def followed_by_its_own(tape: Tape) -> float:
        app = tape.pod_app[~tape.pod_initial]
        return float((app[1:] == app[:-1]).mean())

    assert followed_by_its_own(before) < 0.5
    assert followed_by_its_own(after) > 0.8


def test_small_fleets_and_fixed_deployments_keep_their_arrivals(part: Part, tiny_scenario) -> None:
    folder = part("dlrm2025", "latency")
    assert changed_columns(*played(folder, tiny_scenario())) == {"zone_rtt_ms"}
    fixed = tiny_scenario(**LARGE, arrivals={"deployments": 5})
    assert changed_columns(*played(folder, fixed)) == {"zone_rtt_ms"}


# --- bad input


def test_a_folder_without_traces_names_what_is_looked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=", ".join(SUB_FOLDERS)):
        TraceFolder(tmp_path)
    with pytest.raises(InputError, match="nowhere is no folder"):
        TraceFolder(tmp_path / "nowhere")


def test_traces_without_a_part_in_the_scenario_are_refused(part: Part, tiny_scenario) -> None:
    with pytest.raises(InputError, match="has only dlrm2025, openb, which has no part in scenario tiny"):
        played(part("dlrm2025", "openb"), tiny_scenario())


def test_a_sub_folder_without_its_files_says_which_are_missing(part: Part, tiny_scenario, tmp_path: Path) -> None:
    folder = part("bitbrains")
    shutil.copy(tmp_path / "bitbrains/rnd_2013-08-05_14d_vms.csv", tmp_path / "bitbrains/again_vms.csv")
    with pytest.raises(InputError, match=r"bitbrains: as many .* found 1 \*_series.csv\*, 2 \*_vms.csv\*"):
        played(folder, tiny_scenario())
    for path in (tmp_path / "bitbrains").iterdir():
        path.unlink()
    with pytest.raises(InputError, match=r"bitbrains: no file \*_series.csv"):
        played(folder, tiny_scenario())


def test_malformed_rows_stop_or_are_counted(part: Part, tiny_scenario, tmp_path: Path) -> None:
    folder = part("latency")
    with (tmp_path / "latency/rtt_inter_az.csv").open("a") as file:
        file.write("2026-08-16,There,x,y,far\n2026-08-16,There,x,y,-1\n")
    with pytest.raises(InputError, match=r"rtt_inter_az.csv:16: column 'rtt_ms': 'far' is not a number"):
        played(folder, tiny_scenario())
    folder = part(skip_bad=True)
    assert folder.bad_rows == 0
    played(folder, tiny_scenario())
    played(folder, tiny_scenario(), index=1)  # read once, counted once
    assert folder.bad_rows == folder.provenance()["bad_rows"] == 2


@pytest.fixture(scope="module")
def real(traces: Path) -> TraceFolder:
    return TraceFolder(traces)


@pytest.mark.parametrize("scenario", scenario_names())
def test_real_traces_have_a_part_in_every_scenario(real: TraceFolder, scenario: str) -> None:
    for index in range(2):
        before, after = played(real, load_scenario(scenario), index)
        assert {"app_load", "background_rx_ratio"} <= changed_columns(before, after)
        assert 0.005 < after.background_cpu_ratio.mean() < 0.3
        assert 0.1 < after.app_load.mean() < 3
