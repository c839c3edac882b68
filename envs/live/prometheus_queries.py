"""What Prometheus is asked, by name. Every query gives one value for each node, in the base unit of its metric.

Placeholders: ``<label>`` is the label that tells nodes apart, ``<device>`` a matcher of interfaces, ``<window>`` the
window of the rates, ``<step>`` the interval at which we ask, ``<pods>`` a matcher of pods. The inner ``max`` makes
one of a series that two jobs or replicas scraped; without it a node that is scraped twice would look twice as busy.
"""

from __future__ import annotations

_BUSY = 'max by (<label>, cpu) (clamp_min(1 - {rate}(node_cpu_seconds_total{{mode="idle"}}[<window>]), 0))'
_TRAFFIC = "sum by (<label>) (max by (<label>, device) (rate(node_network_{way}_bytes_total{{<device>}}[<window>])))"
_POD_TRAFFIC = (
    "sum by (namespace, pod) (max by (namespace, pod, interface) "
    "(rate(container_network_{way}_bytes_total{{<pods>}}[<window>])))"
)

# All pods with a name, and the same in parts of about the same size, by the last character of the name.
ALL_PODS = 'pod!=""'
POD_PARTS = tuple(f'pod=~".*[{last}]"' for last in ("0-9", "a-g", "h-p", "q-z"))

STANDARD = {
    # cores
    "cpu": f"sum by (<label>) ({_BUSY.format(rate='rate')})",
    "cpu_std": f"stddev_over_time((sum by (<label>) ({_BUSY.format(rate='irate')}))[<window>:<step>])",
    # bytes
    "memory": "max by (<label>) (node_memory_MemTotal_bytes - node_memory_MemAvailable_bytes)",
    # bytes in a second
    "rx": _TRAFFIC.format(way="receive"),
    "tx": _TRAFFIC.format(way="transmit"),
    "nic": "sum by (<label>) (max by (<label>, device) (node_network_speed_bytes{<device>} > 0))",
    # how many
    "connections": "max by (<label>) (node_netstat_Tcp_CurrEstab)",
    # when the newest sample was taken, unix seconds: the value of a rate does not tell
    "cpu_time": 'max by (<label>) (timestamp(node_cpu_seconds_total{mode="idle"}))',
    "memory_time": "max by (<label>) (timestamp(node_memory_MemAvailable_bytes))",
    "network_time": "max by (<label>) (timestamp(node_network_receive_bytes_total{<device>}))",
    # of single pods, in the same units
    "pod_cpu": (
        "sum by (namespace, pod) (max by (namespace, pod, container) "
        '(rate(container_cpu_usage_seconds_total{<pods>,container!="",container!="POD"}[<window>])))'
    ),
    "pod_memory": (
        "sum by (namespace, pod) (max by (namespace, pod, container) "
        '(container_memory_working_set_bytes{<pods>,container!="",container!="POD"}))'
    ),
    "pod_rx": _POD_TRAFFIC.format(way="receive"),
    "pod_tx": _POD_TRAFFIC.format(way="transmit"),
}

# Queries that may be chosen by name instead of being written out.
CHOICES = {
    # What the NetworkTraffic plugin really asked: the sum of a counter's readings grows with the uptime of the node,
    # not with its traffic (S1.3). Here to compare with, never by default.
    "legacy_sum_over_time": ("sum by (<label>) (sum_over_time(node_network_receive_bytes_total{<device>}[<window>]))"),
    # The time of the answer, for metrics without a series that tells when they were sampled.
    "reply": "reply",
}

# What the NetworkTraffic thesis observed of one node, word for word (S1.18); <instance>, <node> and <namespace> are
# filled in, <device> is the name of the interface.
OBSERVATIONS = {
    "cpu_percent": '100 - (avg(irate(node_cpu_seconds_total{mode="idle",instance="<instance>"}[1m])) * 100)',
    "memory_available_gb": 'node_memory_MemAvailable_bytes{instance="<instance>"}/10^9',
    "disk_percent": (
        '100 - (node_filesystem_free_bytes{mountpoint="/run",instance="<instance>"}'
        '/node_filesystem_size_bytes{mountpoint="/run",instance="<instance>"} * 100)'
    ),
    "network_rx_bytes_per_s": ('rate(node_network_receive_bytes_total{instance="<instance>",device="<device>"}[5m])'),
    "connections": 'node_netstat_Tcp_CurrEstab{instance="<instance>"}',
    "pods": 'count(kube_pod_info{node="<node>",namespace="<namespace>"}) or vector(0)',
}
