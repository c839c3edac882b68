"""Objects of the API server into rows of the ledger."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from sys import intern

from agent.errors import InputError
from agent.requests import pod_requests
from envs.live import fields
from envs.live.fields import Json
from envs.live.ledger import Ledger, PodRow
from envs.live.metrics import PodName
from envs.live.nodes import addresses_of, node_from_api
from envs.live.pods import app_of, pod_from_api

logger = logging.getLogger(__name__)

TERMINAL = ("Succeeded", "Failed")
_MAX_WARNINGS = 1000  # remembered, so that each is logged once


class NodeSink:
    def __init__(self, ledger: Ledger, nic_mbps_by_type: Mapping[str, float]) -> None:
        self._ledger = ledger
        self._nic_mbps_by_type = nic_mbps_by_type
        self._listed: set[str] = set()
        self._warned: set[str] = set()

    def begin(self) -> None:
        self._listed = set()

    def listed(self, item: Json) -> None:
        self._listed.add(name_of(item)[1])
        self.changed(item)

    def finish(self) -> None:
        self._ledger.keep_nodes(self._listed)
        self._listed = set()

    def changed(self, item: Json) -> None:
        node, warnings = node_from_api(item, self._nic_mbps_by_type)
        self._ledger.set_node(node, addresses_of(item))
        for warning in set(warnings) - self._warned:
            logger.warning(warning)
            if len(self._warned) < _MAX_WARNINGS:
                self._warned.add(warning)

    def removed(self, item: Json) -> None:
        self._ledger.remove_node(name_of(item)[1])


class PodSink:
    """Pods of one namespace, or of all."""

    def __init__(self, ledger: Ledger, namespace: str = "", protect_annotation: str = "") -> None:
        self._ledger = ledger
        self._protect_annotation = protect_annotation
        self._namespace = namespace
        self._listed: set[PodName] = set()
        self._known = False  # a first list was whole: what is new from now on has just happened

    def begin(self) -> None:
        self._listed = set()

    def listed(self, item: Json) -> None:
        self._listed.add(name_of(item))
        self.changed(item)

    def finish(self) -> None:
        self._ledger.keep_pods(self._listed, self._namespace)
        self._listed = set()
        self._known = True

    def changed(self, item: Json) -> None:
        name = name_of(item)
        if fields.text(fields.an_object(item, "status"), "phase") in TERMINAL:
            self._ledger.remove_pod(name)  # it holds nothing any more, whether or not somebody deletes it
            return
        row = self._row(item)
        just_bound = self._known and row.node and not self._ledger.has_bound(name, row)
        self._ledger.set_pod(name, row, pod_from_api(item)[0] if just_bound else None)

    def removed(self, item: Json) -> None:
        self._ledger.remove_pod(name_of(item))

    def _row(self, item: Json) -> PodRow:
        """Names that many pods share are kept once."""
        metadata, spec = fields.an_object(item, "metadata"), fields.an_object(item, "spec")
        requests = pod_requests(item)
        annotations = fields.an_object(metadata, "annotations")
        return PodRow(
            fields.text(metadata, "uid"),
            intern(fields.text(spec, "nodeName")),
            intern(app_of(metadata, fields.text_map(metadata, "labels"))),
            requests.cpu_millicores,
            requests.memory_bytes,
            requests.gpus,
            bool(fields.objects(spec, "schedulingGates")),
            annotations.get(self._protect_annotation) == "true",
        )


def name_of(item: Json) -> PodName:
    metadata = fields.an_object(item, "metadata")
    namespace, name = fields.text(metadata, "namespace"), fields.text(metadata, "name")
    if not name:
        raise InputError("an object without a name")
    return intern(namespace), name
