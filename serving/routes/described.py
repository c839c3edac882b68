"""What the native API takes and gives, as JSON schema for /openapi.json.

Bodies are read by hand, because pydantic would cost more than the scoring; so they are described by hand, too. Tests
hold real replies against these descriptions.
"""

from __future__ import annotations

from typing import Any

from serving.wire.pod import REQUIREMENTS

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
WHOLE: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
NUMBER_OR_NULL: Schema = {"type": ["number", "null"]}


def record(**properties: Schema) -> Schema:
    """An object with exactly these fields."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def listing(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def mapping(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


ERROR = record(error=TEXT)
SCORED = record(node=TEXT, score={"type": "integer", "minimum": 0, "maximum": 10}, value=NUMBER_OR_NULL)
AGES = mapping(NUMBER_OR_NULL)
DEMAND = record(
    cpu_millicores=NUMBER_OR_NULL,
    memory_mib=NUMBER_OR_NULL,
    rx_mbps=NUMBER_OR_NULL,
    tx_mbps=NUMBER_OR_NULL,
    source=TEXT,
    siblings=WHOLE,
)
REASONS = mapping(listing(TEXT))

# What every answer about a pod says of how it came about.
ORIGIN: Schema = {"source": TEXT, "reason": TEXT, "model": TEXT_OR_NULL, "demand": DEMAND, "ages_s": AGES}

SCORES = record(
    scores=listing(SCORED),
    best=TEXT_OR_NULL,
    filtered=REASONS,
    warnings=listing(TEXT),
    deadline_ms=NUMBER,
    **ORIGIN,
)
EXPLANATION = record(
    node=TEXT_OR_NULL,
    sentence=TEXT,
    value=NUMBER_OR_NULL,
    value_of_average=NUMBER_OR_NULL,
    contributions=listing(record(feature=TEXT, change=NUMBER_OR_NULL)),
    remainder=NUMBER_OR_NULL,
    best=TEXT_OR_NULL,
    bound=TEXT_OR_NULL,
    next_best=listing(SCORED),
    filtered=REASONS,
    filtered_counts=mapping(WHOLE),
    **ORIGIN,
)
DECIDED = record(
    number=WHOLE,
    at_s=NUMBER,
    uid=TEXT,
    name=TEXT,
    namespace=TEXT,
    app=TEXT,
    best=TEXT_OR_NULL,
    mode=TEXT,
    applied=FLAG,
    candidates=WHOLE,
    top=listing(SCORED),
    filtered=mapping(WHOLE),
    deadline_ms=NUMBER,
    took_ms=NUMBER,
    bound=TEXT_OR_NULL,
    bound_at_s=NUMBER_OR_NULL,
    **ORIGIN,
)
DECIDED["properties"]["features"] = {"type": ["object", "null"], "additionalProperties": mapping(NUMBER)}
DECISIONS = record(decisions=listing(DECIDED))
MODELS = record(
    models=listing({"type": "object", "properties": {"label": TEXT, "sha256": TEXT}, "required": ["label", "sha256"]}),
    problems=listing(TEXT),
    schema_version=WHOLE,
)

POD_OR_REQUIREMENTS: Schema = {
    "pod": {"type": "object", "description": "a pod as the Kubernetes API writes it"},
    "requirements": {"type": "object", "properties": {name: {} for name in REQUIREMENTS}},
    "nodes": {"type": "array", "items": TEXT, "description": "names; all nodes if absent"},
}

MEANINGS = {
    400: "the request is not what is described here; the message names the field",
    404: "there is no such thing",
    409: "nothing was changed, and why",
    413: "the body is too long",
    503: "not now, and why",
}


def body_of(properties: Schema) -> Schema:
    """For ``openapi_extra``."""
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def replies(schema: Schema, *errors: int) -> dict[int | str, dict[str, Any]]:
    """For ``responses``: the reply, and the errors that can come instead."""
    described: dict[int | str, dict[str, Any]] = {200: _described("the answer", schema)}
    return described | {code: _described(MEANINGS[code], ERROR) for code in errors}


def _described(meaning: str, schema: Schema) -> dict[str, Any]:
    return {"description": meaning, "content": {"application/json": {"schema": schema}}}
