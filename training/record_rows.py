"""Records as rows of a table, and back: the shape of the parquet files of a packed recording.

Samples and node tables get one row per node, since that is how they are analysed. The column ``record`` is the
position in the recording, which puts the rows of one record together again and the records into their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from envs.workloads.recording_records import (
    FORMAT_VERSION,
    SAMPLE_COLUMNS,
    Bound,
    Decision,
    Ended,
    Header,
    Nodes,
    NodeSpec,
    PodDemand,
    Record,
    Sample,
)

Row = dict[str, Any]

VERSION_KEY = b"pilotfish_recording_format"

_STR, _INT, _BOOL, _FLOAT = pa.string(), pa.int64(), pa.bool_(), pa.float64()
_ROW_OF_FEATURES = pa.list_(_FLOAT)
_DECISION_LISTS = ("candidates", "scores", "levels", "pod_features", "feature_nodes")
_OTHER_TYPES = {  # every other field of a node or a demand is a float
    "gpus": _INT,
    "gpu_milli": _INT,
    "schedulable": _BOOL,
    **dict.fromkeys(("name", "zone", "namespace", "app", "demand_source"), _STR),
}


def rows_of(record: Record) -> Iterator[Row]:
    """A record without nodes still gets a row, with no name in it, or it would be lost."""
    if isinstance(record, Sample):
        columns = [getattr(record, name) for name in SAMPLE_COLUMNS]
        for node, *values in zip(record.nodes, *columns, strict=True):
            yield {"at_s": record.at_s, "node": node, **dict(zip(SAMPLE_COLUMNS, values, strict=True))}
        if not record.nodes:
            yield {"at_s": record.at_s}
    elif isinstance(record, Header | Nodes):
        yield from _node_rows(record)
    elif isinstance(record, Decision):
        yield {**record.model_dump(exclude={"kind", "demand"}), **record.demand.model_dump()}
    else:
        yield record.model_dump(exclude={"kind"})


def records_of(kind: str, rows: list[Row]) -> Iterator[tuple[int, Record]]:
    """Positions and records; rows of one record follow each other."""
    start = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or rows[end]["record"] != rows[start]["record"]:
            yield rows[start]["record"], _REBUILD[kind](rows[start:end])
            start = end


def _node_rows(record: Header | Nodes) -> Iterator[Row]:
    head = record.model_dump(exclude={"kind", "nodes", "removed"})
    removed = record.removed if isinstance(record, Nodes) else ()
    yield from ({**head, **node.model_dump(), "removed": False} for node in record.nodes)
    yield from ({**head, "name": name, "removed": True} for name in removed)
    if not record.nodes and not removed:
        yield head


def _header(rows: list[Row]) -> Record:
    head: Row = {name: rows[0][name] for name in Header.model_fields if name not in ("kind", "nodes")}
    head |= {name: tuple(head[name]) for name in ("node_features", "pod_features")}
    return Header(**head, nodes=tuple(_node(row) for row in rows if row["name"] is not None))


def _nodes(rows: list[Row]) -> Record:
    named = [row for row in rows if row["name"] is not None]
    return Nodes(
        at_s=rows[0]["at_s"],
        nodes=tuple(_node(row) for row in named if not row["removed"]),
        removed=tuple(row["name"] for row in named if row["removed"]),
    )


def _node(row: Row) -> NodeSpec:
    return NodeSpec(**{name: row[name] for name in NodeSpec.model_fields})


def _sample(rows: list[Row]) -> Record:
    named = [row for row in rows if row["node"] is not None]
    columns: Row = {name: tuple(row[name] for row in named) for name in SAMPLE_COLUMNS}
    return Sample(**{"at_s": rows[0]["at_s"], "nodes": tuple(row["node"] for row in named), **columns})


def _decision(rows: list[Row]) -> Record:
    own = {name: rows[0][name] for name in Decision.model_fields if name not in ("kind", "demand")}
    lists: Row = {name: tuple(own[name]) for name in _DECISION_LISTS}
    lists["node_features"] = tuple(tuple(row) for row in own["node_features"])
    demand = PodDemand(**{name: rows[0][name] for name in PodDemand.model_fields})
    return Decision(**{**own, **lists, "demand": demand})


def _bound(rows: list[Row]) -> Record:
    own = {name: rows[0][name] for name in Bound.model_fields if name != "kind"}
    return Bound(**{**own, "features": tuple(own["features"])})


def _ended(rows: list[Row]) -> Record:
    return Ended(at_s=rows[0]["at_s"], pod_uid=rows[0]["pod_uid"])


_REBUILD: dict[str, Callable[[list[Row]], Record]] = {
    "header": _header,
    "nodes": _nodes,
    "sample": _sample,
    "decision": _decision,
    "bound": _bound,
    "ended": _ended,
}


def _schema(*fields: tuple[str, Any]) -> Any:
    return pa.schema([("record", _INT), ("at_s", _FLOAT), *fields], {VERSION_KEY: str(FORMAT_VERSION).encode()})


def _fields(model: type[NodeSpec] | type[PodDemand]) -> list[tuple[str, Any]]:
    return [(name, _OTHER_TYPES.get(name, _FLOAT)) for name in model.model_fields]


SCHEMAS: dict[str, Any] = {
    "header": _schema(
        *(("format_version", _INT), ("schema_version", _INT), ("segment", _INT)),
        *(("node_features", pa.list_(_STR)), ("pod_features", pa.list_(_STR))),
        *_fields(NodeSpec),
    ),
    "nodes": _schema(*_fields(NodeSpec), ("removed", _BOOL)),
    "sample": _schema(("node", _STR), *((name, _FLOAT) for name in SAMPLE_COLUMNS)),
    "decision": _schema(
        ("pod_uid", _STR),
        *_fields(PodDemand),
        ("candidates", pa.list_(_STR)),
        ("scores", pa.list_(_FLOAT)),
        ("source", _STR),
        ("reason", _STR),
        ("chosen", _STR),
        ("shadow", _BOOL),
        ("mode", _STR),
        ("model", _STR),
        *((name, _FLOAT) for name in ("took_ms", "deadline_ms", "cpu_age_s", "memory_age_s", "network_age_s")),
        ("levels", pa.list_(_INT)),
        ("pod_features", _ROW_OF_FEATURES),
        ("feature_nodes", pa.list_(_STR)),
        ("node_features", pa.list_(_ROW_OF_FEATURES)),
    ),
    "bound": _schema(("pod_uid", _STR), ("node", _STR), ("features", _ROW_OF_FEATURES)),
    "ended": _schema(("pod_uid", _STR)),
}
