import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.ladder import SKIP_REASONS
from tests.serving.conftest import without_metrics
from tests.serving.test_source_metrics import KNOWN, Still

DOCS = Path(__file__).parents[2] / "docs"
SMALL = {"requirements": {"cpu": "500m"}}


def samples(client):
    """Every sample as {(name, labels): value}."""
    families = text_string_to_metric_families(client.get("/metrics").text)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_requests_are_counted_by_route_and_code(client):
    client.post("/v1/score", json=SMALL)
    client.post("/v1/score", content="{")
    client.get("/a")
    client.get("/b")
    counted = samples(client)
    assert counted["pilotfish_requests_total", (("code", "200"), ("route", "/v1/score"))] == 1
    assert counted["pilotfish_requests_total", (("code", "400"), ("route", "/v1/score"))] == 1
    assert counted["pilotfish_requests_total", (("code", "404"), ("route", "unknown"))] == 2
    assert counted["pilotfish_request_seconds_count", (("route", "/v1/score"), ("source", "none"))] == 1


def test_a_defect_is_counted_as_500(client, decider, monkeypatch):
    monkeypatch.setattr(decider, "decide", lambda *_: 1 / 0)
    client.post("/v1/score", json=SMALL)
    assert samples(client)["pilotfish_requests_total", (("code", "500"), ("route", "/v1/score"))] == 1


def test_decisions_are_counted_by_the_step_that_answered(client, source):
    client.post("/v1/score", json=SMALL)
    source.current = without_metrics(source.current, "cpu")
    client.post("/v1/score", json=SMALL)
    counted = samples(client)
    assert counted["pilotfish_decisions_total", (("source", "expected_utilisation"),)] == 1
    assert counted["pilotfish_decisions_total", (("source", "least_allocated"),)] == 1
    assert counted["pilotfish_ladder_step_skipped_total", (("reason", "stale"), ("step", "expected_utilisation"))] == 1


def test_an_open_breaker_shows(client, decider):
    assert samples(client)["pilotfish_breaker_open", (("step", "expected_utilisation"),)] == 0
    for _ in range(3):
        decider.ladder.steps[0].breaker.failed()
    assert samples(client)["pilotfish_breaker_open", (("step", "expected_utilisation"),)] == 1


def test_ages_grow_and_stale_nodes_are_counted(client, clock):
    clock.now_s += 10.0
    assert samples(client)["pilotfish_metric_age_seconds", (("group", "network"),)] == 15.0
    assert samples(client)["pilotfish_nodes_without_metric", (("group", "network"),)] == 0
    clock.now_s += 80.0
    assert samples(client)["pilotfish_nodes_without_metric", (("group", "network"),)] == 5


def test_a_metric_without_any_value_has_no_age(client, source):
    source.current = without_metrics(source.current, "network")
    age_s = samples(client)["pilotfish_metric_age_seconds", (("group", "network"),)]
    assert age_s != age_s


def test_metrics_answer_before_there_is_a_state(client, source):
    source.current = None
    assert client.get("/metrics").status_code == 200


@pytest.fixture
def documented():
    rows = re.findall(r"^\| `(pilotfish_\w+)` \| (\w+) \|([^|]*)\|", (DOCS / "metrics.md").read_text(), re.MULTILINE)
    return {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def test_the_docs_name_exactly_the_metrics_that_are_exported(client, source, documented, metrics, model_folder):
    metrics.watch_sources(lambda: {"prometheus": Still(KNOWN)})
    sidecar = client.app.state.sidecar
    with_model = sidecar.settings.model.model_copy(update={"folder": str(model_folder)})
    sidecar.models.apply(sidecar.settings.model_copy(update={"model": with_model}))
    client.post("/v1/score", json=SMALL)
    source.current = without_metrics(source.current, "cpu")
    client.post("/v1/score", json=SMALL)
    exported = {}
    for family in text_string_to_metric_families(client.get("/metrics").text):
        if family.name.startswith("pilotfish"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = {label for sample in family.samples for label in sample.labels if label != "le"}
            exported[name] = (family.type, labels)
    assert {name: (kind, set(labels)) for name, (kind, labels) in documented.items()} == exported


def test_the_docs_name_every_reason_to_skip_a_step():
    text = (DOCS / "metrics.md").read_text()
    assert [reason for reason in SKIP_REASONS if f"`{reason}`" not in text] == []
