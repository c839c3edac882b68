"""Which node a series belongs to.

Clusters name it in many ways: a label ``node`` or ``kubernetes_node`` that somebody relabelled, or only ``instance``,
an address with a port, which the node's own addresses, kube-state-metrics or ``node_uname_info`` translate. One query
brings the labels of every exporter; the label that names the most nodes wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from envs.live.prometheus_client import Series
from envs.live.prometheus_settings import AUTO

Addresses = Mapping[str, Sequence[str]]  # node name -> its addresses and host names, as the API server knows them

# Best first: among labels that name as many nodes, the one that was made for it.
LABELS = ("node", "kubernetes_node", "kubernetes_io_hostname", "node_name", "nodename", "hostname", "host", "instance")
DETECTION = (
    f"group by (__name__, internal_ip, {', '.join(LABELS)}) "
    '({__name__=~"node_uname_info|node_memory_MemTotal_bytes|kube_node_info"})'
)
SHOWN = 3  # examples in a message

_PORT = re.compile(r":[0-9]{1,5}$")


@dataclass(frozen=True)
class NodeMapping:
    label: str = "instance"
    names: frozenset[str] = frozenset()  # of the nodes; empty: whatever a series is called is a node
    translated: Mapping[str, str] = field(default_factory=dict)  # address or label value -> node name

    def node_of(self, labels: Mapping[str, str]) -> str | None:
        return self.named(labels.get(self.label, ""))

    def named(self, value: str) -> str | None:
        """The node that this value of the label stands for; None: no node of this cluster."""
        host = host_of(value)
        for candidate in (value, host, host.partition(".")[0]):
            name = self.translated.get(candidate, candidate)
            if candidate and name in self.names:
                return name
        return None if self.names or not value else self.translated.get(value, host)


def mapping_of(series: Iterable[Series], addresses: Addresses, label: str = AUTO) -> NodeMapping:
    """The mapping that names the most nodes; ``series`` answers DETECTION, ``addresses`` is empty without a watch."""
    described = [dict(one.labels) for one in series]
    state = [labels for labels in described if labels.get("__name__") == "kube_node_info" and labels.get("node")]
    names = frozenset(addresses) or frozenset(labels["node"] for labels in state)
    translated = {labels["internal_ip"]: labels["node"] for labels in state if labels.get("internal_ip")}
    translated |= {address: name for name, known in addresses.items() for address in known}  # the API server knows best
    exporters = [labels for labels in described if labels.get("__name__") != "kube_node_info"]
    resolver = NodeMapping("", names, translated)
    translated |= _instances(exporters, resolver)
    labels = LABELS if label == AUTO else (label,)
    mappings = [NodeMapping(one, names, translated) for one in labels]
    best = max(mappings, key=lambda one: _named_by(one, exporters))
    return best if _named_by(best, exporters) else mappings[-1]


def host_of(value: str) -> str:
    """Without the port; an IPv6 address without its brackets."""
    bare = value if value.count(":") > 1 and not value.startswith("[") else _PORT.sub("", value)
    return bare.removeprefix("[").removesuffix("]")


def _instances(exporters: Sequence[Mapping[str, str]], resolver: NodeMapping) -> dict[str, str]:
    """What ``node_uname_info`` says of instances that nothing else translates."""
    found = {}
    for labels in exporters:
        instance, name = labels.get("instance", ""), resolver.named(labels.get("nodename", ""))
        if instance and name and (not resolver.names or resolver.named(instance) is None):
            found[instance] = name
    return found


def _named_by(mapping: NodeMapping, exporters: Sequence[Mapping[str, str]]) -> int:
    """How many nodes the label names on the series that are asked for; ``nodename`` often stands on one metric only."""
    asked = [labels for labels in exporters if labels.get("__name__") != "node_uname_info"] or exporters
    return len({mapping.node_of(labels) for labels in asked} - {None})
