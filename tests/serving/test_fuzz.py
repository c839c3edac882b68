"""Whatever arrives on the extender's routes and the documented ones: valid JSON with integers comes back, and no 5xx.

``make fuzz`` runs 100,000 cases and keeps what came of them; here a small share of them.
"""

import asyncio
import contextlib
import json
import os
from typing import NamedTuple
from urllib.parse import unquote, urlencode

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.core import NotSet

from serving.app import create_app
from serving.decide import new_decider
from serving.observability import Metrics
from serving.settings import ExtenderSettings, ModelSettings, Settings
from tests.serving.conftest import NAMES, ManualClock, StillSource, a_snapshot
from tests.serving.test_extender import a_pod

CASES = int(os.environ.get("PILOTFISH_FUZZ_CASES", "300"))
FUZZ = settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck), database=None)

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
NAME = st.sampled_from(NAMES) | st.text(max_size=30)
QUANTITY = st.sampled_from(["0", "100m", "2", "1Gi", "64Mi", "1e3", "-1", "x", "9" * 40, ".5", "1Ei"]) | ANYTHING
CONTAINER = st.fixed_dictionaries(
    {"name": st.text(max_size=5)},
    optional={
        "resources": st.fixed_dictionaries(
            {"requests": st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), QUANTITY)}
        )
    },
)
ANNOTATION = st.sampled_from(
    ["pilotfish.io/network-mbps", "latencyHardConstraint", "latencySoftConstraint", "kubernetes.io/egress-bandwidth"]
)
POD = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "uid": st.text(max_size=10) | ANYTHING,
                "name": st.text(max_size=10),
                "labels": st.dictionaries(st.text(max_size=8), st.text(max_size=8)) | ANYTHING,
                "annotations": st.dictionaries(ANNOTATION, st.text(max_size=8) | ANYTHING) | ANYTHING,
                "ownerReferences": ANYTHING,
            },
        ),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "schedulerName": st.sampled_from(["default-scheduler", "other"]) | ANYTHING,
                "containers": st.lists(CONTAINER, max_size=3) | ANYTHING,
                "initContainers": st.lists(CONTAINER, max_size=2) | ANYTHING,
                "nodeSelector": ANYTHING,
                "tolerations": ANYTHING,
                "affinity": ANYTHING,
                "overhead": ANYTHING,
                "priority": ANYTHING,
            },
        ),
    }
)
NODE = st.fixed_dictionaries({"metadata": st.fixed_dictionaries({"name": NAME})}) | ANYTHING
BODY = st.fixed_dictionaries(
    {"Pod": POD | ANYTHING},
    optional={
        "NodeNames": st.none() | st.lists(NAME, max_size=20) | ANYTHING,
        "Nodes": st.none() | st.fixed_dictionaries({"items": st.none() | st.lists(NODE, max_size=6)}) | ANYTHING,
    },
)
VICTIMS = st.dictionaries(NAME, st.none() | st.fixed_dictionaries({}, optional={"Pods": ANYTHING}) | ANYTHING)
PREEMPTION = st.fixed_dictionaries(
    {"Pod": POD | ANYTHING}, optional={"NodeNameToVictims": VICTIMS, "NodeNameToMetaVictims": VICTIMS}
)


class Reply(NamedTuple):
    status_code: int
    content: bytes

    def json(self):
        return json.loads(self.content)


class Direct:
    """Calls the application as a server would, without one: most of a case would be the time of its client."""

    def __init__(self):
        chosen = Settings(model=ModelSettings(folder="none"), extender=ExtenderSettings(preempt=True, bind=True))
        metrics, clock = Metrics(), ManualClock()
        self.decider = new_decider(chosen, clock, metrics.on_ranking, metrics.on_skip)
        self.app = create_app(chosen, StillSource(a_snapshot()), self.decider, metrics)
        self._loop = asyncio.new_event_loop()

    def request(self, method, path, content=b"", query=b""):
        sent = []

        async def receive():
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message):
            sent.append(message)

        headers = [(b"host", b"x"), (b"content-length", str(len(content)).encode())]
        scope = {"type": "http", "method": method, "path": path, "query_string": query, "headers": headers}
        with contextlib.suppress(Exception):  # after the reply of a defect it is raised again, for the server's log
            self._loop.run_until_complete(self.app(scope, receive, send))
        return Reply(sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:]))

    def close(self):
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


@pytest.fixture(scope="module")
def fuzzed():
    client = Direct()
    yield client
    said = client.request("GET", "/metrics").content
    client.close()
    assert b"pilotfish_extender_defects_total 0.0" in said, "a defect hid behind a neutral answer"


def asked(body):
    if body.get("NodeNames") is not None:
        return body["NodeNames"]
    return [item["metadata"]["name"] for item in (body.get("Nodes") or {}).get("items") or []]


def answer(client, verb, body):
    """The reply if it is one; a refusal must be a 400 with one line."""
    reply = client.request("POST", f"/extender/{verb}", body if isinstance(body, bytes) else json.dumps(body).encode())
    found = reply.json()
    if reply.status_code == 400:
        assert list(found) == ["error"]
        assert "\n" not in found["error"]
        return None
    assert reply.status_code == 200, reply.content
    assert b"." not in b"".join(part.partition(b"}")[0] for part in reply.content.split(b'"Score":')[1:])
    return found


@FUZZ
@given(body=BODY)
def test_prioritize_gives_every_asked_node_one_integer(fuzzed, body):
    found = answer(fuzzed, "prioritize", body)
    if found is not None:
        assert [entry["Host"] for entry in found] == asked(body)
        assert all(type(entry["Score"]) is int and 0 <= entry["Score"] <= 10 for entry in found)


@FUZZ
@given(body=BODY)
def test_filter_gives_only_asked_nodes(fuzzed, body):
    found = answer(fuzzed, "filter", body)
    if found is not None:
        nodes = found["NodeNames"]
        passed = nodes if nodes is not None else [each["metadata"]["name"] for each in found["Nodes"]["items"]]
        rejected = found["FailedNodes"].keys() | found["FailedAndUnresolvableNodes"].keys()
        assert passed == [name for name in asked(body) if name not in rejected]
        assert found["Error"] == ""


@FUZZ
@given(body=PREEMPTION)
def test_preempt_invents_no_node_and_no_victim(fuzzed, body):
    found = answer(fuzzed, "preempt", body)
    if found is not None:
        given_nodes = (body.get("NodeNameToVictims") or {}).keys() | (body.get("NodeNameToMetaVictims") or {}).keys()
        assert found["NodeNameToMetaVictims"].keys() <= given_nodes


@FUZZ
@given(
    body=st.binary(max_size=200) | st.text(max_size=200).map(str.encode),
    verb=st.sampled_from(["filter", "prioritize", "preempt", "bind"]),
)
def test_noise_is_refused_in_one_line(fuzzed, body, verb):
    answer(fuzzed, verb, body)


@FUZZ
@given(cut=st.integers(0, 400), verb=st.sampled_from(["filter", "prioritize"]))
def test_a_body_that_breaks_off_is_refused(fuzzed, cut, verb):
    whole = json.dumps({"Pod": a_pod(), "NodeNames": list(NAMES)}).encode()
    if cut < len(whole):
        assert answer(fuzzed, verb, whole[:cut]) is None


@FUZZ
@given(
    calls=st.lists(
        st.tuples(st.sampled_from(["u1", "u2", "u3"]), st.sampled_from(["filter", "prioritize"])), max_size=12
    )
)
def test_repeated_and_out_of_order_calls_leave_one_placement_a_pod(fuzzed, calls):
    before = len(fuzzed.decider.assumed)  # by other properties
    for uid, verb in calls:
        assert answer(fuzzed, verb, {"Pod": a_pod(uid=uid), "NodeNames": list(NAMES)}) is not None
    placed = {uid for uid, verb in calls if verb == "prioritize"}
    assert len(fuzzed.decider.assumed) == before + len(placed)
    for uid in placed:
        fuzzed.decider.assumed.deleted(uid)


SCHEMA = schemathesis.openapi.from_dict(Direct().app.openapi())


@SCHEMA.exclude(path_regex="events|reload").parametrize()
@settings(max_examples=max(CASES // 10, 10), deadline=None, suppress_health_check=list(HealthCheck), database=None)
def test_documented_routes_never_fail(case, fuzzed):
    """Through one application that stays up: schemathesis would start and stop it for each request."""
    given = b"" if isinstance(case.body, NotSet) else case.body
    body = given if isinstance(given, bytes) else json.dumps(given).encode()
    query = urlencode(case.query or {}, doseq=True).encode()
    reply = fuzzed.request(case.method, unquote(case.formatted_path), body, query)
    assert reply.status_code < 500 or reply.status_code == 503, reply.content
