import json
import logging

import pytest

from serving.logs import DecisionLog, JsonLines
from serving.settings import LoggingSettings

POD = {"requirements": {"uid": "u1", "name": "web-1", "namespace": "shop", "cpu": "500m"}}


@pytest.fixture
def decision_lines(client, caplog):
    def lines(level):
        caplog.set_level(level, logger="serving.logs")
        for _ in range(200):
            client.post("/v1/score", json=POD)
        return [record for record in caplog.records if record.name == "serving.logs"]

    return lines


def test_every_hundredth_decision_has_a_line_with_its_source(decision_lines):
    lines = decision_lines("INFO")
    assert len(lines) == 2
    assert "pod shop/web-1 (u1): idle by expected_utilisation of 4 candidates" in lines[0].getMessage()


def test_at_debug_every_decision_has_a_line(decision_lines):
    assert len(decision_lines("DEBUG")) == 200


@pytest.mark.parametrize(("share", "lines"), [(0.0, 0), (0.25, 50), (1.0, 200)])
def test_the_share_is_kept(share, lines, client, decider, caplog):
    caplog.set_level("INFO", logger="serving.logs")
    decider.decisions._listeners = ()
    decider.decisions.listen(DecisionLog(lambda: LoggingSettings(decision_share=share)))
    for _ in range(200):
        client.post("/v1/score", json=POD)
    assert len(caplog.records) == lines


def test_a_json_line_has_the_fields_of_the_decision(decision_lines):
    line = json.loads(JsonLines().format(decision_lines("INFO")[0]))
    assert (line["source"], line["uid"], line["best"], line["level"]) == ("expected_utilisation", "u1", "idle", "info")
    assert line["message"].startswith("pod shop/web-1")


def test_a_trace_stays_in_its_line():
    try:
        raise ValueError("two\nlines")
    except ValueError as why:
        info = (type(why), why, why.__traceback__)
    record = logging.LogRecord("x", logging.ERROR, "f", 1, "failed: %s", ("a\nb",), info)
    text = JsonLines().format(record)
    assert "\n" not in text
    assert "two\nlines" in json.loads(text)["trace"]
