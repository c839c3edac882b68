"""Which pods an environment over a real cluster places itself, and in which order."""

from __future__ import annotations

import pytest

from agent.cluster import Pod
from envs.live.kubernetes.waiting import REQUIRED, WaitingSink, unknown_rules
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


def containers(kind: str = "containers", **fields: object) -> dict:
    return {"containers": [{"name": "main"}]} | {kind: [{"name": "main", **fields}]}


def requests(name: str, amount: str) -> dict:
    return {"resources": {"requests": {"cpu": "1", name: amount}}}


HOST_PORT = {"ports": [{"containerPort": 8080}, {"hostPort": 80}]}
FPGA, HUGE_PAGES = requests("example.com/fpga", "1"), requests("hugepages-2Mi", "4Mi")

RULES = [
    ("a required podAntiAffinity", {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}}),
    ("topologySpreadConstraints", {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}),
    ("a persistent volume", {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}),
    ("a persistent volume", {"volumes": [{"name": "data", "gcePersistentDisk": {"pdName": "data"}}]}),
    ("a hostPort", containers(**HOST_PORT)),
    ("a hostPort", containers("initContainers", restartPolicy="Always", **HOST_PORT)),
    ("resourceClaims", {"resourceClaims": [{"name": "gpu"}]}),
    ("a request of example.com/fpga", containers(**FPGA)),
    ("a request of example.com/fpga", containers("initContainers", **FPGA)),
    ("a request of hugepages-2Mi", containers(**HUGE_PAGES)),
    ("a request of hugepages-2Mi", HUGE_PAGES),  # of the pod as a whole
    ("a request of ephemeral-storage", containers(**requests("ephemeral-storage", "1Gi"))),
]


@pytest.mark.parametrize(("rule", "spec"), RULES)
def test_pods_with_a_rule_that_nobody_would_check_are_left_alone_with_a_warning(sink, waiting, caplog, rule, spec):
    for _ in range(2):
        sink.changed(pod("one", **spec))
    assert names(waiting) == []
    assert [record.message for record in caplog.records] == [f"pod shop/one is left alone: it has {rule}"]


def test_wishes_plain_volumes_and_what_feasibility_counts_are_no_such_rules():
    asked = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1", "ephemeral-storage": "0", "example.com/fpga": "0"}
    spec = {
        "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}},
        "topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}],
        "volumes": [{"name": "token", "projected": {}}],
        "containers": [{"name": "main", "ports": [{"containerPort": 80}], "resources": {"requests": asked}}],
    }
    assert list(unknown_rules(spec)) == []
