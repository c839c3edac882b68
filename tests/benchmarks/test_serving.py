"""The benchmark's own parts: what it measures with must measure."""

import json

import numpy as np
import pytest

from agent.errors import InputError
from benchmarks.extender.client import a_get, a_request, ask_once, running
from benchmarks.extender.cluster import StandingCluster, name
from serving.wire.extender import to_args


def test_the_cluster_of_numbers_has_every_column_for_every_node():
    snapshot = StandingCluster(50, lambda: 7.0).snapshot()
    assert len(snapshot.nodes) == snapshot.state.node_count == 50
    assert snapshot.nodes.names[3] == name(3)
    assert np.isfinite(snapshot.state.rx_mbps).all()


def test_requests_are_what_kube_scheduler_sends():
    args, names = to_args(a_request(20, 3).partition(b"\r\n\r\n")[2], 100)
    assert names == [name(index) for index in range(20)]
    assert args.nodes is None
    assert args.pod["metadata"]["uid"] == "6f1b-3"


@pytest.mark.slow
def test_the_sidecar_answers_with_its_policy_and_the_constant_one_with_a_constant():
    with running("sidecar", 30) as (_, port), running("constant", 30) as (_, constant_port):
        ours = json.loads(ask_once(port, a_request(30, 1)))
        constant = json.loads(ask_once(constant_port, a_request(30, 1)))
        metrics = ask_once(port, a_get("/metrics")).decode()
        with pytest.raises(InputError, match="404"):
            ask_once(constant_port, a_request(30, 1, verb="preempt"))
    assert [each["Host"] for each in ours] == [each["Host"] for each in constant] == [name(i) for i in range(30)]
    assert {each["Score"] for each in constant} == {5}
    assert [each["Score"] for each in ours].count(10) == 1
    assert 'pilotfish_decisions_total{source="policy"} 1.0' in metrics, "else the wrong thing is timed"
