"""What is open to other machines was opened on purpose."""

from __future__ import annotations

import pytest

from agent.errors import InputError
from serving.configuration import load_settings
from serving.security.exposure import check_exposure, is_loopback
from serving.settings import SecuritySettings


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_loopback_needs_nothing(host):
    assert is_loopback(host)
    check_exposure(host, SecuritySettings())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "sidecar.example.com", ""])
def test_any_other_address_is_refused_without_tls_or_tokens(host):
    assert not is_loopback(host)
    with pytest.raises(InputError, match="PILOTFISH_SECURITY__CERTIFICATE_FILE"):
        check_exposure(host, SecuritySettings())


@pytest.mark.parametrize(
    "security",
    [{"certificate_file": "a", "key_file": "b"}, {"token_file": "c"}, {"allow_insecure": True}],
    ids=lambda given: next(iter(given)),
)
def test_it_is_allowed_with_one_of_them(security):
    check_exposure("0.0.0.0", SecuritySettings(**security))


def test_insecure_is_said_aloud(log):
    check_exposure("0.0.0.0", SecuritySettings(allow_insecure=True))
    assert "allow_insecure" in log.text


def test_tokens_that_lock_the_scheduler_out_are_said_aloud(log):
    check_exposure("127.0.0.1", SecuritySettings(token_file="tokens"))
    assert "kube-scheduler cannot send a token" in log.text


@pytest.mark.parametrize("field", ["certificate_file", "key_file", "client_ca_file"])
def test_files_that_do_not_go_together_are_refused(field):
    with pytest.raises(InputError, match=r"security: .*certificate_file and key_file"):
        load_settings(security={field: "a.pem"})
