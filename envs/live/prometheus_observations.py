"""What the NetworkTraffic thesis observed of a node, by its own queries (S1.18): for people who compare."""

from __future__ import annotations

import math

from envs.live.prometheus_client import PrometheusClient, QueryRefused, Series
from envs.live.prometheus_diagnosis import Diagnosis
from envs.live.prometheus_mapping import DETECTION, Addresses, mapping_of
from envs.live.prometheus_queries import OBSERVATIONS

Observed = dict[str, float | None]  # None: Prometheus does not know


def observations(
    client: PrometheusClient, found: Diagnosis, addresses: Addresses, namespace: str = "default"
) -> dict[str, Observed]:
    """By node name; the interface is the one of the settings, which must be a plain name here."""
    detected = client.vector(DETECTION)
    mapping = mapping_of(detected, addresses, client.settings.node_label)
    instances = {mapping.node_of(one.labels): one.labels.get("instance", "") for one in detected}
    asked = {node.name: instances.get(node.name, "") for node in found.nodes}
    return {name: _observed(client, name, instance, namespace) for name, instance in asked.items()}


def _observed(client: PrometheusClient, node: str, instance: str, namespace: str) -> Observed:
    filled = {"<instance>": instance, "<node>": node, "<namespace>": namespace, "<device>": client.settings.device}
    observed: Observed = {}
    for name, query in OBSERVATIONS.items():
        for placeholder, value in filled.items():
            query = query.replace(placeholder, value.replace("\\", "\\\\").replace('"', '\\"'))
        observed[name] = _single(client, query)
    return observed


def _single(client: PrometheusClient, query: str) -> float | None:
    try:
        series: list[Series] = client.vector(query)
    except QueryRefused:
        return None
    return series[0].value if series and math.isfinite(series[0].value) else None
