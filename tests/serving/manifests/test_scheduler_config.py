"""The configuration that kube-scheduler is given."""

from __future__ import annotations

import pytest
import yaml

from agent.errors import InputError
from serving.configuration import ConfigurationSource
from serving.manifests.scheduler_config import SchedulerOptions, extender, scheduler_config, scheduler_config_text
from serving.settings import Settings

VERSIONS = [f"1.{minor}" for minor in range(29, 37)]


def settings(*assignments: str) -> Settings:
    return ConfigurationSource(assignments=assignments).read().settings


def config(*assignments: str, **options: object) -> dict:
    """What kube-scheduler reads: the text, parsed."""
    return yaml.safe_load(scheduler_config_text(settings(*assignments), SchedulerOptions(**options)))


@pytest.mark.parametrize("version", [*VERSIONS, "v1.31", "1.30.4"])
def test_every_version_gets_the_stable_interface(version):
    assert config(kubernetes=version)["apiVersion"] == "kubescheduler.config.k8s.io/v1"


@pytest.mark.parametrize("version", ["1.28", "1.37", "2.0", "one", "", "1"])
def test_other_versions_are_refused_with_those_there_are(version):
    with pytest.raises(InputError, match=r"--kubernetes.*1\.\d\d"):
        SchedulerOptions(kubernetes=version)


def test_the_text_is_the_object():
    assert config() == scheduler_config(settings(), SchedulerOptions())


def test_the_extender_is_asked_by_name_on_loopback_and_never_stops_a_pod():
    assert config()["extenders"] == [
        {
            "urlPrefix": "http://127.0.0.1:8000/extender",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 10,
            "nodeCacheCapable": True,
            "ignorable": True,
            "httpTimeout": "1s",
        }
    ]


def test_a_scheduler_that_asks_for_scores_alone_makes_one_call_a_pod():
    asked = {name for name in config(rank_only=True)["extenders"][0] if name.endswith("Verb")}
    assert asked == {"prioritizeVerb"}


def test_every_scheduler_name_is_a_profile():
    given = config("extender.scheduler_names=default-scheduler, my-custom-scheduler")
    assert [profile["schedulerName"] for profile in given["profiles"]] == ["default-scheduler", "my-custom-scheduler"]


def test_in_tree_scores_stay_and_a_comment_says_how_to_switch_them_off():
    text = scheduler_config_text(settings(), SchedulerOptions())
    assert yaml.safe_load(text)["profiles"] == [{"schedulerName": "default-scheduler"}]
    recipe = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("#   ")]
    assert yaml.safe_load("\n".join(recipe)) == {"plugins": {"score": {"disabled": [{"name": "*"}]}}}


def test_pilotfish_alone_disables_every_in_tree_score():
    assert config(only_pilotfish=True)["profiles"][0]["plugins"] == {"score": {"disabled": [{"name": "*"}]}}


def test_in_tree_strategies_as_the_document_has_them():
    profile = config(
        "extender.scheduler_names=my-custom-scheduler", strategy="MostAllocated", volume_bind_timeout_s=60
    )["profiles"][0]
    arguments = {plugin["name"]: plugin["args"] for plugin in profile["pluginConfig"]}
    assert profile["schedulerName"] == "my-custom-scheduler"
    assert profile["plugins"]["score"]["enabled"] == [{"name": "NodeResourcesFit", "weight": 1}]
    assert arguments["NodeResourcesFit"]["scoringStrategy"] == {
        "type": "MostAllocated",
        "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
    }
    assert arguments["VolumeBinding"]["bindTimeoutSeconds"] == 60


def test_verbs_follow_the_settings():
    given = extender(settings("extender.bind=true", "extender.preempt=true"), SchedulerOptions())
    assert (given["bindVerb"], given["preemptVerb"]) == ("bind", "preempt")


@pytest.mark.parametrize(
    ("host", "prefix"),
    [
        ("127.0.0.1", "http://127.0.0.1:9000/extender"),
        ("0.0.0.0", "http://127.0.0.1:9000/extender"),
        ("'::1'", "http://[::1]:9000/extender"),
    ],
)
def test_the_address_is_where_the_sidecar_listens(host, prefix):
    given = settings(f"server.host={host}", "server.port=9000")
    assert extender(given, SchedulerOptions())["urlPrefix"] == prefix


def test_share_of_nodes_is_set_and_explained():
    assert config()["percentageOfNodesToScore"] == 0  # kube-scheduler's own choice
    assert config(percentage_of_nodes=100)["percentageOfNodesToScore"] == 100


class TestTls:
    SERVED = ("security.certificate_file=/etc/pilotfish/tls/tls.crt", "security.key_file=/etc/pilotfish/tls/tls.key")
    MUTUAL = (*SERVED, "security.client_ca_file=/etc/pilotfish/tls/ca.crt")

    def test_the_ca_is_named(self):
        given = extender(settings(*self.SERVED), SchedulerOptions(ca_file="/ca.crt"))
        assert given["urlPrefix"].startswith("https://")
        assert (given["enableHTTPS"], given["tlsConfig"]) == (True, {"caFile": "/ca.crt"})

    def test_without_it_kube_scheduler_would_trust_anybody(self):
        with pytest.raises(InputError, match="--ca-file"):
            extender(settings(*self.SERVED), SchedulerOptions())

    def test_a_client_certificate_goes_with_its_key(self):
        files = {"ca_file": "/ca", "client_certificate_file": "/crt", "client_key_file": "/key"}
        given = extender(settings(*self.MUTUAL), SchedulerOptions(**files))
        assert given["tlsConfig"] == {"caFile": "/ca", "certFile": "/crt", "keyFile": "/key"}

    def test_without_one_where_it_is_wanted_nothing_is_written(self):
        with pytest.raises(InputError, match="--client-certificate-file"):
            extender(settings(*self.MUTUAL), SchedulerOptions(ca_file="/ca", client_key_file="/key"))

    def test_tokens_alone_lock_it_out(self):
        with pytest.raises(InputError, match="cannot send a token"):
            extender(settings("security.token_file=/tokens"), SchedulerOptions())


@pytest.mark.parametrize(
    "wrong",
    [{"weight": 0}, {"percentage_of_nodes": 101}, {"volume_bind_timeout_s": 0}, {"strategy": "Most"}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_wrong_option_is_refused_by_its_name(wrong):
    with pytest.raises(InputError, match="--" + next(iter(wrong)).replace("_", "-")):
        SchedulerOptions(**wrong)


def test_a_timeout_below_our_own_deadline_is_refused():
    with pytest.raises(InputError, match="--http-timeout-s"):
        extender(settings("ladder.deadline_ms=500"), SchedulerOptions(http_timeout_s=0.5))
