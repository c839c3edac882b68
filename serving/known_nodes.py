"""The nodes of the cluster that the settings name, once, for commands: what the watch would tell the collector."""

from __future__ import annotations

from agent.errors import InputError
from envs.live import fields
from envs.live.fields import Json
from envs.live.kubernetes.access import find_access
from envs.live.kubernetes.api import ApiError, ApiServer
from envs.live.nodes import addresses_of
from envs.live.prometheus_mapping import Addresses
from serving.settings import Settings

NODES = "/api/v1/nodes"


def known_nodes(settings: Settings) -> tuple[Addresses, list[str]]:
    """Names and addresses, and why they are not known; nothing of both where nobody says how to reach a cluster."""
    cluster = settings.cluster
    if cluster.source != "kubernetes":
        return {}, []
    try:
        api = ApiServer(find_access(cluster.kubeconfig, cluster.context))
    except InputError:
        if cluster.kubeconfig or cluster.context:
            raise
        return {}, []
    try:
        return _listed(api, settings), []
    except (ApiError, InputError) as why:
        return {}, [f"Kubernetes: {why}; the nodes are those that Prometheus knows"]


def _listed(api: ApiServer, settings: Settings) -> Addresses:
    limits, found, more = settings.cluster, dict[str, tuple[str, ...]](), ""
    while True:
        params = {"limit": str(limits.page_items)} | ({"continue": more} if more else {})
        page: Json = api.get(NODES, params, limits.request_timeout_s, limits.page_max_bytes)
        for item in fields.objects(page, "items"):
            found[fields.text(fields.an_object(item, "metadata"), "name")] = addresses_of(item)
        more = fields.text(fields.an_object(page, "metadata"), "continue")
        if not more:
            return found
