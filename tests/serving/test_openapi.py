"""What /openapi.json says is what the sidecar does."""

import jsonschema
import pytest

CALLS = [
    ("post", "/v1/score", {"requirements": {"cpu": "500m", "uid": "u1"}}),
    ("post", "/v1/score", {"requirements": {"cpu": "4000"}}),
    ("post", "/v1/score", {"requirements": {"cpu": -1}}),
    ("post", "/v1/score", [1]),
    ("post", "/v1/explain", {"requirements": {"cpu": "500m"}}),
    ("post", "/v1/explain", {"requirements": {"cpu": "4000"}}),
    ("post", "/v1/explain", {"uid": "u1"}),
    ("post", "/v1/explain", {"uid": "stranger"}),
    ("get", "/v1/decisions", None),
    ("get", "/v1/decisions?uid=u1", None),
    ("get", "/v1/decisions?limit=no", None),
    ("get", "/v1/model", None),
    ("post", "/v1/model/reload", None),
]


@pytest.mark.parametrize(("method", "path", "body"), CALLS)
def test_replies_and_errors_are_as_described(client, method, path, body):
    client.post("/v1/score", json={"requirements": {"uid": "u1"}})
    reply = client.request(method, path, json=body)
    described = client.get("/openapi.json").json()["paths"][path.partition("?")[0]][method]
    assert str(reply.status_code) in described["responses"]
    schema = described["responses"][str(reply.status_code)]["content"]["application/json"]["schema"]
    jsonschema.validate(reply.json(), schema)


def test_bodies_are_described(client):
    paths = client.get("/openapi.json").json()["paths"]
    for path in ("/v1/score", "/v1/explain"):
        schema = paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert {"pod", "requirements", "nodes"} <= set(schema["properties"])
