"""``pilotfish simulate`` and ``pilotfish headroom`` as a user meets them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import yaml

import pilotfish
from agent.heuristics.registry import SCORERS
from envs.dynamics.costs import TERMS
from envs.rewards import DIGEST
from envs.workloads.scenario import load_scenario, scenario_names

pytestmark = pytest.mark.timeout(400)  # the first to run waits until numba has compiled the simulator

NEZHA = (
    "ts,service,cpu_m,cpu_pct_of_limit,mem_mib,mem_pct_of_limit,rx_Bps,tx_Bps,"
    "server_p90_s,server_p99_s,ops,node_cpu_pct,node_mem_pct\n"
)


@pytest.fixture(scope="module")
def scenario(small, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("worlds") / "small.yaml"
    path.write_text(yaml.safe_dump(small.model_dump(mode="json")))
    return str(path)


@pytest.fixture
def traces(tmp_path) -> Path:
    """A folder in which a service is ten times as busy every third minute."""
    path = tmp_path / "traces" / "k8s_nezha" / "shop_pods.csv"
    path.parent.mkdir(parents=True)
    rows = [f"{1000 + 60 * k},cart,3,10,30,25,1000,1000,,,{1 if k % 3 else 10},12,46\n" for k in range(30)]
    path.write_text(NEZHA + "".join(rows))
    return path.parents[1]


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs the command; gives its exit code, and what it wrote to stdout and stderr."""

    def run(*arguments: object) -> tuple[int | str | None, str, str]:
        monkeypatch.setattr(sys, "argv", ["pilotfish", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            pilotfish.main()
        return end.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def result(command):
    def run(*arguments: object) -> dict:
        code, out, err = command("simulate", *arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    return run


@pytest.fixture
def refused(command):
    """The one line that a user sees."""

    def run(*arguments: object) -> str:
        code, out, err = command("simulate", *arguments)
        assert (code, out) == (2, "")
        assert re.fullmatch(r"pilotfish: .+\n", err)
        return err

    return run


# --- results


def test_json_has_the_cost_with_its_interval_and_every_term(result, scenario):
    shown = result(scenario, "--policy", "least_allocated", "--episodes", 3)
    assert shown["cost"]["mean"] > 0
    assert shown["cost"]["ci95"] > 0
    assert list(shown["terms"]) == list(TERMS)
    assert sum(term["usd_per_hour"] for term in shown["terms"].values()) == pytest.approx(shown["cost"]["mean"])
    assert (shown["policy"], shown["episodes"], shown["decisions"] > 0) == ("least_allocated", 3, True)


def test_result_names_what_it_depends_on(result, scenario, small):
    shown = result(scenario, "--episodes", 1, "--seed", 4)
    assert shown["scenario_digest"] == load_scenario(scenario).digest()
    assert (shown["weights_digest"], shown["seed"], shown["traces"]) == (DIGEST, 4, None)


def test_the_same_command_gives_the_same_result(result, scenario):
    assert result(scenario, "--episodes", 2) == result(scenario, "--episodes", 2)
    assert result(scenario, "--episodes", 2)["cost"] != result(scenario, "--episodes", 2, "--seed", 1)["cost"]


def test_one_episode_has_no_interval_and_nothing_is_nan(command, scenario):
    for options in (["--json"], []):
        code, out, _ = command("simulate", scenario, "--episodes", 1, *options)
        assert code == 0
        assert "nan" not in out.lower()
        if options:
            assert json.loads(out)["cost"]["ci95"] is None
        else:
            assert "±" not in out


def test_table_has_every_term(command, scenario):
    code, out, _ = command("simulate", scenario, "--episodes", 2)
    assert code == 0
    assert "±" in out
    assert all(name in out for name in TERMS)


def test_plot_writes_a_png(command, scenario, tmp_path):
    path = tmp_path / "episode.PNG"
    code, _, err = command("simulate", scenario, "--episodes", 1, "--plot", path)
    assert code == 0, err
    assert path.read_bytes().startswith(b"\x89PNG")


# --- traces


def test_traces_change_the_world_and_are_named_in_the_result(result, scenario, traces):
    shown = result(scenario, "--episodes", 2, "--traces", traces)
    assert shown["cost"] != result(scenario, "--episodes", 2)["cost"]
    assert list(shown["traces"]["files"]) == ["k8s_nezha/shop_pods.csv"]
    assert shown["traces"]["bad_rows"] == 0


def test_malformed_rows_are_refused_by_place_or_counted(command, refused, scenario, traces):
    with (traces / "k8s_nezha/shop_pods.csv").open("a") as file:
        file.write("2800,cart,3,10,30,25,1000,many,,,1,12,46\n")
    said = refused(scenario, "--episodes", 1, "--traces", traces)
    assert re.search(r"shop_pods.csv:32: column 'tx_Bps': 'many' is not a number", said)
    code, out, err = command("simulate", scenario, "--episodes", 1, "--traces", traces, "--skip-bad", "--json")
    assert code == 0
    assert json.loads(out)["traces"]["bad_rows"] == 1
    assert "left out: 1" in err


def test_a_misspelt_column_is_one_line_with_the_columns_that_are_there(refused, scenario, traces):
    path = traces / "k8s_nezha/shop_pods.csv"
    path.write_text(path.read_text().replace("tx_Bps", "tx_bps", 1))
    said = refused(scenario, "--traces", traces)
    assert re.search(r"shop_pods.csv:1: no column tx_Bps; the file has ts, service, .*tx_bps", said)


def test_a_folder_without_traces_is_one_line_with_what_is_looked_for(refused, scenario, tmp_path):
    assert "bitbrains, gpu_cluster_net, k8s_nezha, latency, dlrm2025, openb" in refused(scenario, "--traces", tmp_path)
    assert "no-such is no folder" in refused(scenario, "--traces", tmp_path / "no-such")


# --- bad input


def test_an_unknown_scenario_names_the_choices(refused):
    assert ", ".join(scenario_names()) in refused("nowhere")


def test_an_unknown_policy_names_the_choices(refused, scenario):
    assert ", ".join(SCORERS) in refused(scenario, "--policy", "oracle")


@pytest.mark.parametrize("name", ["episode.jpg", "episode", "no-such-folder/episode.png", "folder.png"])
def test_a_picture_that_cannot_be_written_is_refused_before_any_work(refused, scenario, tmp_path, monkeypatch, name):
    monkeypatch.setattr("training.simulate.play", None)
    (tmp_path / "folder.png").mkdir()
    assert "--plot" in refused(scenario, "--plot", tmp_path / name)


# --- headroom


@pytest.fixture
def asked(monkeypatch) -> list[tuple[list[str], dict]]:
    calls: list[tuple[list[str], dict]] = []
    monkeypatch.setattr("training.headroom.run", lambda names, **options: calls.append((names, options)))
    return calls


def test_headroom_looks_at_all_scenarios_unless_some_are_named(command, asked):
    from training.rollouts import Search

    assert command("headroom")[0] == 0
    assert command("headroom", "edge", "gpu", "--episodes", 2, "--candidates", 4, "--seed", 3, "--json")[0] == 0
    (every, defaults), (some, options) = asked
    assert (every, some) == (scenario_names(), ["edge", "gpu"])
    assert defaults["search"] == Search()  # the defaults of the command are those of the search
    only = {"episodes": 2, "seed": 3, "as_json": True, "search": Search(candidates=4)}
    assert options == {**only, "most_nodes": None, "save": None}
