"""A session whose API server does not answer a binding: whether the pod is bound is what the watch shows."""

from __future__ import annotations

import pytest

from envs.live import session as sessions
from envs.live.binding import BindingUnanswered
from envs.live.cluster_settings import ClusterSettings
from envs.live.prometheus_settings import PrometheusSettings
from envs.live.session import LiveSession
from tests.envs.live.conftest import eventually
from tests.envs.live.scripted_api import api_node, api_pod

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: here, user: me}}}}]
clusters: [{{name: here, cluster: {{server: "{url}"}}}}]
users: [{{name: me, user: {{}}}}]
"""


def waiting_pod(node: str = "") -> dict:
    pod = api_pod("web-1", node)
    pod["spec"]["schedulerName"] = "pilotfish-live"
    return pod


@pytest.fixture
def session(api, tmp_path, monkeypatch):
    monkeypatch.setattr(sessions, "UNANSWERED_S", 1.0)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG.format(url=api.url))
    api.put("nodes", api_node("node-a"))
    api.put("pods", waiting_pod())
    made = LiveSession(
        ClusterSettings(kubeconfig=str(kubeconfig)),
        PrometheusSettings(address="http://127.0.0.1:9"),
        scheduler_name="pilotfish-live",
    )
    yield made
    made.close()


def test_binding_without_an_answer_counts_if_the_watch_shows_it(api, session):
    decision = eventually(lambda: session.decision(within_s=0.1), "a pod to place")
    api.on_post = lambda: api.put("pods", waiting_pod("node-a"))  # written, and then the connection breaks
    bound_at_s = session.place(decision, 0)
    assert bound_at_s <= session.clock()
    assert len(api.posted) == 1
    assert session.decision(within_s=0.2) is None


def test_binding_without_an_answer_is_refused_if_the_pod_still_waits(api, session):
    decision = eventually(lambda: session.decision(within_s=0.1), "a pod to place")
    api.on_post = lambda: None
    with pytest.raises(BindingUnanswered):
        session.place(decision, 0)
    assert len(session.waiting) == 1
