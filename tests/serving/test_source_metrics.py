"""What each source of metrics has, as the sidecar exports it."""

from envs.live.metrics import LiveMetrics, PodUse, Reading
from serving.observability import Metrics
from serving.source_metrics import SourceCollector


class Still:
    def __init__(self, metrics: LiveMetrics) -> None:
        self.metrics = metrics

    def newest(self) -> LiveMetrics:
        return self.metrics


KNOWN = LiveMetrics(
    {"rx_mbps": {"a": Reading(1.0, 990.0), "b": Reading(2.0, 980.0), "c": Reading(2.0, 0.0)}, "tx_mbps": {}},
    {("shop", "web"): PodUse(1.0, 1.0, 1.0, 1.0)},
    ("one", "two"),
)


def test_each_source_has_ages_nodes_pods_and_problems():
    found = {
        (family.name, *sample.labels.values()): sample.value
        for family in SourceCollector(lambda: {"prometheus": Still(KNOWN)}, wall=lambda: 1000.0).collect()
        for sample in family.samples
    }
    assert found == {
        ("pilotfish_source_age_seconds", "prometheus", "rx_mbps"): 20.0,
        ("pilotfish_source_nodes", "prometheus", "rx_mbps"): 3.0,
        ("pilotfish_source_nodes", "prometheus", "tx_mbps"): 0.0,
        ("pilotfish_source_pods", "prometheus"): 1.0,
        ("pilotfish_source_problems", "prometheus"): 2.0,
    }


def test_sources_are_part_of_the_exposition():
    metrics = Metrics()
    metrics.watch_sources(lambda: {"probe": Still(KNOWN)})
    assert b'pilotfish_source_nodes{column="rx_mbps",source="probe"} 3.0' in metrics.exposition()
