"""Traces, with the exporter of OpenTelemetry that keeps spans in memory; and over a real socket."""

import http.server
import subprocess
import sys
import threading

import pytest
from fastapi.testclient import TestClient
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from serving.app import create_app
from serving.settings import TracingSettings
from serving.tracing import trace

POD = {"requirements": {"uid": "u1", "name": "web-1", "cpu": "500m"}}


def traced(settings, source, decider, metrics, share):
    settings = settings.model_copy(update={"tracing": TracingSettings(share=share)})
    app, kept = create_app(settings, source, decider, metrics), InMemorySpanExporter()
    trace(app, app.state.sidecar, kept)
    return TestClient(app, raise_server_exceptions=False), kept


@pytest.fixture
def everything(settings, source, decider, metrics):
    return traced(settings, source, decider, metrics, 1.0)


def test_a_request_is_a_span_and_its_decision_a_span_within(everything):
    client, kept = everything
    client.post("/v1/score", json=POD)
    decision, request = kept.get_finished_spans()
    assert (decision.name, request.name) == ("decide", "POST /v1/score")
    assert decision.parent.span_id == request.context.span_id
    assert decision.attributes["pilotfish.source"] == "expected_utilisation"
    assert decision.attributes["pilotfish.best"] == "idle"
    assert request.attributes["http.response.status_code"] == 200
    assert decision.start_time <= decision.end_time


def test_the_callers_trace_goes_on_here(everything):
    client, kept = everything
    client.get("/healthz", headers={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"})
    (span,) = kept.get_finished_spans()
    assert f"{span.context.trace_id:032x}" == "a" * 32


def test_no_header_but_the_trace_leaves_the_process(everything):
    client, kept = everything
    client.post("/v1/score", json=POD, headers={"authorization": "Bearer secret", "x-anything": "secret"})
    assert all("secret" not in span.to_json() for span in kept.get_finished_spans())


def test_a_share_of_none_traces_nothing_unless_the_caller_does(settings, source, decider, metrics):
    client, kept = traced(settings, source, decider, metrics, 0.0)
    client.post("/v1/score", json=POD)
    assert kept.get_finished_spans() == ()
    client.post("/v1/score", json=POD, headers={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"})
    assert len(kept.get_finished_spans()) == 2


def test_spans_reach_a_collector_over_http(settings, source, decider, metrics):
    received = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            received.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}/v1/traces"
    settings = settings.model_copy(update={"tracing": TracingSettings(endpoint=endpoint, share=1.0)})
    with TestClient(create_app(settings, source, decider, metrics)) as client:
        client.post("/v1/score", json=POD)
    server.shutdown()
    server.server_close()
    assert received[0][0] == "/v1/traces"
    assert b"expected_utilisation" in received[0][1]


def test_a_collector_that_is_not_there_costs_no_answer(settings, source, decider, metrics):
    settings = settings.model_copy(update={"tracing": TracingSettings(endpoint="http://127.0.0.1:9/x", share=1.0)})
    with TestClient(create_app(settings, source, decider, metrics)) as client:
        assert client.post("/v1/score", json=POD).status_code == 200


def test_nothing_of_the_extra_is_loaded_while_it_is_off():
    extra = ("opentelemetry.sdk", "opentelemetry.exporter")  # FastAPI loads the bare interface where it is installed
    look = f"import serving.run, sys; sys.exit(', '.join(m for m in sys.modules if m.startswith({extra})))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=40, check=False)
    assert done.stderr.strip() == ""
