"""Scenarios: read, checked, and named by a digest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from agent.errors import InputError
from envs.workloads.scenario import load_scenario, parse_scenario, scenario_names

DEMANDED = {"microservices", "bursts", "mixed", "edge", "gpu", "overload"}


def test_every_scenario_that_was_asked_for_is_there_and_can_be_read():
    assert set(scenario_names()) >= DEMANDED
    for name in scenario_names():
        assert load_scenario(name).name == name


def test_unknown_scenario_names_the_choices():
    with pytest.raises(InputError, match=r"unknown scenario 'micro'; choose one of .*edge.*microservices") as refusal:
        load_scenario("micro")
    assert all(name in str(refusal.value) for name in scenario_names())


def test_scenario_can_be_a_file(tmp_path, tiny_scenario):
    file = tmp_path / "mine.yaml"
    file.write_text(tiny_scenario().model_dump_json())  # JSON is YAML
    assert load_scenario(str(file)) == tiny_scenario()
    with pytest.raises(InputError, match="unknown scenario"):
        load_scenario(str(tmp_path / "other.yaml"))


def test_file_that_is_no_yaml_is_refused_in_one_line(tmp_path):
    file = tmp_path / "broken.yaml"
    file.write_text("nodes: [1, 2\nname: {")
    with pytest.raises(InputError, match=r"broken\.yaml: not YAML") as refusal:
        load_scenario(str(file))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("content", [None, [], "text", {"name": "x"}])
def test_content_that_is_no_scenario_is_refused(content):
    with pytest.raises(InputError, match=r"^here: "):
        parse_scenario(content, "here")


REFUSED = {
    "nodes.kinds.0.cpu_cores": {"nodes": {"kinds": [{"cpu_cores": float("nan")}]}},
    "nodes.kinds.0.memory_gib": {"nodes": {"kinds": [{"memory_gib": -8}]}},
    "nodes.kinds.0.nic_gbps": {"nodes": {"kinds": [{"nic_gbps": 0}]}},
    "nodes.kinds.0.gpus": {"nodes": {"kinds": [{"gpus": 9}]}},
    "nodes.kinds.0.price_usd_per_hour": {"nodes": {"kinds": [{"price_usd_per_hour": float("inf")}]}},
    "nodes.count": {"nodes": {"count": {"low": 0, "high": 3}}},
    "nodes.count.high": {"nodes": {"count": {"low": 1, "high": float("nan")}}},
    "nodes.maintenance": {"nodes": {"maintenance": 1.5}},
    "nodes.zone": {"nodes": {"zone": 3}},
    "apps.cpu_request_millicores.median": {"apps": {"cpu_request_millicores": {"median": -1}}},
    "arrivals.load": {"arrivals": {"load": {"low": 2, "high": 1}}},
    "arrivals.burst_size": {"arrivals": {"burst_size": 0.5}},
    "gpus.whole": {"gpus": {"whole": {}}},
    "scraping.interval_s": {"scraping": {"interval_s": []}},
    "scraping: window_s": {"scraping": {"interval_s": [1], "window_s": [60]}},
    "binding.visible_after": {"binding": {"visible_after": 65}},
    "horizon_s": {"horizon_s": -1},
    "horizon_s 20 is too short": {"horizon_s": 20},
    "speed": {"speed": 2},
}


@pytest.mark.parametrize("where", REFUSED)
def test_bad_value_is_refused_with_the_name_of_its_field(tiny_scenario, where):
    with pytest.raises(InputError, match=f"^test: {where}") as refusal:
        tiny_scenario(**REFUSED[where])
    assert "\n" not in str(refusal.value)


def test_every_problem_is_named_at_once(tiny_scenario):
    with pytest.raises(InputError) as refusal:
        tiny_scenario(horizon_s=-1, tick_s=0, speed=2)
    assert all(name in str(refusal.value) for name in ("horizon_s", "tick_s", "speed"))


def every_change(part: Any) -> Iterator[Any]:
    """The same part with one value changed, for each value in it."""
    if isinstance(part, BaseModel):
        for name in type(part).model_fields:
            for other in every_change(getattr(part, name)):
                yield part.model_copy(update={name: other})
    elif isinstance(part, dict | list):
        for key in part if isinstance(part, dict) else range(len(part)):
            for other in every_change(part[key]):
                copy = part.copy()
                copy[key] = other
                yield copy
    else:
        yield f"{part}!" if isinstance(part, str) else part + 1


def test_digest_changes_with_any_value(tiny_scenario):
    digests = [tiny_scenario().digest(), *(other.digest() for other in every_change(tiny_scenario()))]
    assert len(set(digests)) == len(digests) > 80


def test_digest_is_the_same_for_the_same_values_however_written(tiny_scenario):
    content = tiny_scenario().model_dump()
    backwards = dict(reversed(content.items())) | {"horizon_s": 150, "tick_s": 1}
    assert parse_scenario(backwards, "test").digest() == tiny_scenario().digest()
    assert len(tiny_scenario().digest()) == 12
