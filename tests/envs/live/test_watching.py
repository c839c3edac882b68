"""The watch survives what API servers do, and what they do at the worst moment. Real sockets, scripted faults."""

from __future__ import annotations

import json
import time

import pytest

from envs.live.kubernetes import api as client
from tests.envs.live.conftest import eventually
from tests.envs.live.scripted_api import (
    ScriptedApi,
    api_node,
    api_pod,
    ended_at_once,
    endless_line,
    hang_up,
    lines,
    slow,
    status,
)

VISIBLE_WITHIN_S = 1.0


def running(cluster, node: str) -> float:
    snapshot = cluster.snapshot()
    return float(snapshot.state.pods_running[snapshot.index_of[node]]) if node in snapshot.index_of else -1.0


@pytest.fixture(autouse=True)
def some_objects(api):
    for name in ("a", "b"):
        api.put("nodes", api_node(name))
    for index in range(7):
        api.put("pods", api_pod(f"p{index}", node="ab"[index % 2]))


def test_lists_are_paged_and_joined(api, cluster):
    assert (running(cluster, "a"), running(cluster, "b")) == (4.0, 3.0)
    pages = [query for kind, query, _ in api.requests if kind == "list pods"]
    assert [query.get("continue") for query in pages] == [None, "3", "6"]
    assert all(query["limit"] == "3" for query in pages)


def test_every_request_carries_the_token(api, cluster):
    assert {headers.get("Authorization") for _, _, headers in api.requests} == {"Bearer of-the-test"}


def test_changes_are_visible_within_a_second(api, cluster):
    eventually(lambda: api.count("watch pods"), "the watch is open")
    began_s = time.monotonic()
    api.put("pods", api_pod("new", node="b"))
    eventually(lambda: running(cluster, "b") == 4.0, "the new pod counts", VISIBLE_WITHIN_S)
    api.delete("pods", api_pod("new", node="b"))
    eventually(lambda: running(cluster, "b") == 3.0, "the pod is gone", VISIBLE_WITHIN_S)
    api.put("nodes", api_node("b", unschedulable=True))
    eventually(lambda: not cluster.snapshot().state.schedulable[1], "the node is cordoned", VISIBLE_WITHIN_S)
    assert time.monotonic() - began_s < 3 * VISIBLE_WITHIN_S


def test_closed_watch_goes_on_from_the_last_version_without_a_list(api, cluster):
    eventually(lambda: api.count("watch pods"))
    api.put("pods", api_pod("before", node="a"))
    eventually(lambda: running(cluster, "a") == 5.0)
    version = str(api.version)
    api.hang_up.set()
    eventually(lambda: api.count("watch pods") == 2, "a second watch")
    api.put("pods", api_pod("after", node="a"))
    eventually(lambda: running(cluster, "a") == 6.0, "what came after the break")
    assert api.count("list pods") == 3  # the pages of the first list
    assert [query for kind, query, _ in api.requests if kind == "watch pods"][1]["resourceVersion"] == version


def test_410_lists_again_and_forgets_what_is_gone(api, cluster, heard):
    eventually(lambda: api.count("watch pods"))
    lists = api.count("list pods")
    with api.lock:  # deleted and bound while nobody watches
        del api.objects["pods"]["shop/p0"]
        api.objects["pods"]["shop/p9"] = api_pod("p9", node="b")
    api.forget()
    api.hang_up.set()
    eventually(lambda: api.count("list pods") > lists, "a second list")
    eventually(lambda: (running(cluster, "a"), running(cluster, "b")) == (3.0, 4.0), "the new truth")
    eventually(lambda: heard.gone == ["uid-shop-p0"] and heard.bound == [("uid-shop-p9", "b")], "the notices")


def test_410_as_an_event_of_the_watch_lists_again(api, cluster):
    eventually(lambda: api.count("watch pods"))
    lists = api.count("list pods")
    gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}}
    api.say("pods", json.dumps(gone).encode() + b"\n")
    eventually(lambda: api.count("list pods") > lists, "a second list")


@pytest.mark.parametrize("code", [500, 503, 429, 401, 403])
def test_refused_list_is_tried_again_and_said(api, cluster_of, code):
    api.faults["list"].extend([status(code, Retry_After="0")] * 4)
    cluster = cluster_of(api.url)
    eventually(lambda: any(f"told to say {code}" in problem for problem in cluster.problems()), "the problem is said")
    eventually(cluster.snapshot, "a snapshot in the end")
    eventually(lambda: not cluster.problems(), "no problem in the end")


@pytest.mark.parametrize(
    "fault",
    [
        status(500),
        hang_up,
        lines(b'{"type": "MODIFIED", "obj'),
        lines(b"this is no JSON\n"),
        lines(b'["neither", "this"]\n'),
        lines(b'{"type": 7, "object": []}\n'),
        lines(),
    ],
    ids=["500", "hang up", "half a line", "no JSON", "no object", "wrong types", "nothing"],
)
def test_broken_watch_is_resumed_without_losing_a_change(api, cluster_of, fault):
    api.faults["watch"].extend([fault] * 4)
    cluster = cluster_of(api.url)
    eventually(cluster.snapshot, "a first snapshot")
    api.put("pods", api_pod("new", node="a"))
    eventually(lambda: running(cluster, "a") == 5.0, "the change arrives in the end")


def test_endless_line_does_not_fill_the_memory(api, cluster_of, monkeypatch):
    monkeypatch.setattr(client, "MAX_LINE_BYTES", 3_000_000)
    api.faults["watch"].extend([endless_line] * 2)
    cluster = cluster_of(api.url)
    eventually(lambda: any("longer than 3000000" in problem for problem in cluster.problems()), "it is said")
    eventually(lambda: not cluster.problems(), "and overcome")


def test_page_that_is_too_long_is_asked_for_in_halves(api, cluster_of):
    for index in range(4):
        api.put("pods", api_pod(f"long{index}", node="a", annotations={"note": "x" * 400_000}))
    cluster = cluster_of(api.url, page_items=100, page_max_bytes=1 << 20)
    eventually(cluster.snapshot, "a snapshot")
    assert running(cluster, "a") == 8.0
    limits = [int(query["limit"]) for kind, query, _ in api.requests if kind == "list pods"]
    assert limits[0] == 100
    assert limits[-1] < 4


def test_slow_list_is_given_up_and_tried_again(api, cluster_of):
    api.faults["list"].extend([slow(1.0)] * 2)
    cluster = cluster_of(api.url, request_timeout_s=0.2)
    eventually(lambda: any("timed out" in problem for problem in cluster.problems()), "it is said")
    eventually(cluster.snapshot, "a snapshot in the end")


def test_watch_that_ends_at_once_for_ever_is_not_asked_in_a_loop(api, cluster_of):
    api.faults["watch"].extend([ended_at_once] * 1000)
    cluster_of(api.url)
    time.sleep(1.0)
    assert api.count("watch pods") + api.count("watch nodes") < 40


def test_bookmark_moves_the_version_on(api, cluster):
    eventually(lambda: api.count("watch pods"))
    bookmark = {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "4711"}}}
    api.say("pods", json.dumps(bookmark).encode() + b"\n")
    time.sleep(0.2)
    api.hang_up.set()
    eventually(lambda: api.count("watch pods") == 2)
    assert [query for kind, query, _ in api.requests if kind == "watch pods"][1]["resourceVersion"] == "4711"


def test_object_that_cannot_be_read_hides_no_other(api, cluster_of, caplog):
    broken = api_pod("broken", node="a")
    broken["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "lots"
    api.put("pods", broken)
    cluster = cluster_of(api.url)
    eventually(cluster.snapshot, "a snapshot")
    assert running(cluster, "a") == 4.0
    assert "'broken' is ignored" in caplog.text


def test_state_grows_old_while_the_api_server_is_away(api, cluster):
    eventually(lambda: api.count("watch pods") and api.count("watch nodes"))
    api.stop()
    eventually(cluster.problems, "it is said")
    time.sleep(1.5)
    snapshot = cluster.snapshot()
    assert time.monotonic() - snapshot.taken_at_s > 1.0
    assert len(snapshot.nodes) == 2  # what was known stays


def test_unreachable_api_server_is_a_problem_and_no_end(cluster_of):
    away = ScriptedApi()
    away.stop()
    cluster = cluster_of(away.url)
    eventually(lambda: any("refused" in problem for problem in cluster.problems()), "it is said")
    assert cluster.snapshot() is None


def test_named_namespaces_are_watched_alone(api, cluster_of):
    api.put("pods", api_pod("elsewhere", node="a", namespace="bank"))
    cluster = cluster_of(api.url, namespaces=("shop",))
    eventually(cluster.snapshot, "a snapshot")
    assert running(cluster, "a") == 4.0
