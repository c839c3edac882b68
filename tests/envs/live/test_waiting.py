"""Which pods an environment over a real cluster places itself, and in which order."""

from __future__ import annotations

import pytest

from agent.cluster import Pod
from envs.live.kubernetes.waiting import WaitingSink, unknown_rules
from envs.live.ledger import Ledger
from envs.live.waiting import WaitingPods
from tests.envs.live.scripted_api import api_pod

OURS = "ours"


@pytest.fixture
def waiting():
    return WaitingPods(OURS)


@pytest.fixture
def sink(waiting):
    return WaitingSink(Ledger(), waiting)


def pod(name: str, **spec: object) -> dict:
    item = api_pod(name)
    item["spec"] |= {"schedulerName": OURS, **spec}
    return item


def names(waiting: WaitingPods, now_s: float = 0.0) -> list[str]:
    return [each.name for each in waiting.in_order(now_s)]


def test_first_come_first_served_but_priority_goes_before(sink, waiting):
    for item in (pod("first"), pod("second"), pod("urgent", priority=10)):
        sink.changed(item)
    assert names(waiting) == ["urgent", "first", "second"]


@pytest.mark.parametrize("spec", [{"schedulerName": "other"}, {"schedulingGates": [{"name": "gate"}]}])
def test_pods_of_others_and_gated_ones_do_not_wait(sink, waiting, spec):
    sink.changed(pod("one", **spec))
    assert names(waiting) == []


def test_bound_removed_and_unlisted_pods_wait_no_longer(sink, waiting):
    for name in ("bound", "removed", "unlisted", "left"):
        sink.changed(pod(name))
    sink.changed(pod("bound", nodeName="node-1"))
    sink.removed(pod("removed"))
    sink.begin()
    sink.listed(pod("left"))
    sink.finish()
    assert names(waiting) == ["left"]


def test_a_pod_that_was_put_off_lets_others_go_first(waiting):
    for name in ("a", "b"):
        waiting.show(("shop", name), Pod(uid=name, name=name))
    waiting.put_off(("shop", "a"), until_s=5.0)
    waiting.show(("shop", "a"), Pod(uid="a", name="a"))  # the watch repeats itself
    assert names(waiting, now_s=4.0) == ["b"]
    assert names(waiting, now_s=5.0) == ["a", "b"]


RULES = {
    "a required podAntiAffinity": {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
    },
    "topologySpreadConstraints": {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
    "a persistent volume": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
    "a hostPort": {"containers": [{"name": "main", "ports": [{"hostPort": 80}]}]},
    "resourceClaims": {"resourceClaims": [{"name": "gpu"}]},
}


@pytest.mark.parametrize("rule", RULES)
def test_pods_with_a_rule_that_nobody_would_check_are_left_alone_with_a_warning(sink, waiting, caplog, rule):
    for _ in range(2):
        sink.changed(pod("one", **RULES[rule]))
    assert names(waiting) == []
    assert [record.message for record in caplog.records] == [f"pod shop/one is left alone: it has {rule}"]


def test_wishes_and_plain_volumes_are_no_such_rules():
    spec = {
        "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}},
        "topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}],
        "volumes": [{"name": "token", "projected": {}}],
        "containers": [{"name": "main", "ports": [{"containerPort": 80}]}],
    }
    assert list(unknown_rules(spec)) == []
