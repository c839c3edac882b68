"""The settings of Prometheus, and the arguments of the plugin that they take the place of."""

import re
import string
from pathlib import Path

import pytest
from pydantic import ValidationError

from agent.errors import InputError
from envs.live.prometheus_queries import CHOICES, STANDARD
from envs.live.prometheus_settings import NetworkTrafficArgs, PrometheusSettings


def test_the_arguments_of_the_plugin_have_its_names_and_defaults():
    args = NetworkTrafficArgs(prometheusAddress="http://p:9090")
    assert (args.networkInterface, args.timeRangeInMinutes) == ("ens192", 5)
    with pytest.raises(ValidationError, match="prometheusAddress"):
        NetworkTrafficArgs()


def test_the_arguments_of_the_plugin_set_address_device_and_window():
    given = '{"prometheusAddress": "http://p:9090", "networkInterface": "eth0", "timeRangeInMinutes": 3}'
    settings = PrometheusSettings(network_traffic_args=given)
    assert (settings.address, settings.device, settings.window_s) == ("http://p:9090", "eth0", 180.0)
    query = settings.query("rx", "instance")
    assert 'rate(node_network_receive_bytes_total{device=~"eth0"}[180000ms])' in query


@pytest.mark.parametrize(
    "args", ["{}", '{"prometheusAddress": ""}', '{"prometheusAddress": "http://p", "interface": "x"}', "no json"]
)
def test_arguments_that_the_plugin_would_refuse_are_refused(args):
    with pytest.raises(ValidationError, match="network_traffic_args"):
        PrometheusSettings(network_traffic_args=args)


@pytest.mark.parametrize(
    "address", ["prometheus:9090", "ftp://p", "http://", "http://me:secret@p:9090", "http://p?x=1"]
)
def test_an_address_that_is_none_is_refused_without_its_secrets(address):
    with pytest.raises(ValidationError) as refused:
        PrometheusSettings(address=address)
    assert "secret" not in refused.value.errors()[0]["msg"]


def test_the_summed_counter_is_asked_only_by_its_name():
    assert not any("sum_over_time" in query for query in STANDARD.values())
    settings = PrometheusSettings(queries={"rx": "legacy_sum_over_time"})
    assert settings.query("rx", "node").startswith("sum by (node) (sum_over_time(node_network_receive_bytes_total{")
    assert settings.query("tx", "node").startswith("sum by (node) (max by (node, device) (rate(")


def test_an_unknown_query_is_refused_with_the_choices():
    with pytest.raises(ValidationError, match="no query is called network; choose from cpu, cpu_std"):
        PrometheusSettings(queries={"network": "up"})


def test_placeholders_are_filled_in_own_queries_too():
    settings = PrometheusSettings(
        queries={"rx": "f{<device>}[<window>:<step>] by <label>"}, device='eth"0', window_s=30
    )
    assert settings.query("rx", "node") == 'f{device=~"eth\\"0"}[30000ms:15000ms] by node'


def test_pods_are_asked_for_in_parts_that_are_all_pods_together():
    parts = PrometheusSettings().pod_parts()
    expressions = [re.fullmatch(r'pod=~"(.*)"', part)[1] for part in parts]
    for last in string.ascii_lowercase + string.digits:  # a name ends with one of these
        assert sum(bool(re.fullmatch(expression, f"web-{last}")) for expression in expressions) == 1
    assert PrometheusSettings(queries={"pod_rx": "up"}).pod_parts() == ('pod!=""',)


def test_a_window_shorter_than_two_scrapes_has_no_rate():
    with pytest.raises(ValidationError, match="must hold two scrapes"):
        PrometheusSettings(window_s=20, interval_s=15)


def test_without_an_address_the_error_says_which_setting():
    with pytest.raises(InputError, match="PILOTFISH_PROMETHEUS__ADDRESS"):
        PrometheusSettings().needs_an_address()


def test_choices_are_named_apart_from_queries():
    assert not set(CHOICES) & set(STANDARD)


def test_the_docs_show_the_queries_that_are_asked():
    page = (Path(__file__).parents[3] / "docs" / "prometheus.md").read_text(encoding="utf-8")
    assert [name for name, query in STANDARD.items() if f"`{query}`" not in page or f"| `{name}` |" not in page] == []
