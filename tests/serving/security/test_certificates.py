"""TLS over real sockets, with real certificates."""

from __future__ import annotations

import http.client
import shutil
import ssl
from datetime import timedelta
from pathlib import Path

import pytest

from agent.errors import InputError
from serving.security.certificates import Certificates
from tests.serving.security.authority import Authority, Pair, encrypted
from tests.serving.security.conftest import Start

A_DAY_AGO = timedelta(days=-1)


def client_context(trusted: Authority, own: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=trusted.file)
    if own:
        context.load_cert_chain(*own)
    return context


def health(port: int, context: ssl.SSLContext) -> int:
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status
    finally:
        connection.close()


def serve(start: Start, server: Pair, ca: Authority | None = None) -> int:
    extra = {"client_ca_file": ca.file} if ca else {}
    return start(certificate_file=server.certificate, key_file=server.key, **extra)


# A refused client certificate: TLS 1.3 tells the client only after its own handshake, as an alert or a reset.
REFUSED = (ssl.SSLError, ConnectionError)


def test_answers_over_tls_to_who_trusts_the_authority(start, ours):
    port = serve(start, ours.sign("sidecar"))
    assert health(port, client_context(ours)) == 200


def test_a_client_that_trusts_another_authority_leaves(start, ours, theirs):
    port = serve(start, ours.sign("sidecar"))
    with pytest.raises(ssl.SSLCertVerificationError):
        health(port, client_context(theirs))


def test_an_expired_certificate_of_the_sidecar_is_seen_by_clients(start, ours):
    port = serve(start, ours.sign("sidecar", A_DAY_AGO))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        health(port, client_context(ours))


def test_plain_http_is_not_answered_where_tls_is_on(start, ours):
    port = serve(start, ours.sign("sidecar"))
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("GET", "/healthz")
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        connection.getresponse()


def test_older_tls_is_refused(start, ours):
    port = serve(start, ours.sign("sidecar"))
    context = client_context(ours)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(REFUSED):
        health(port, context)


class TestClientCertificates:
    @pytest.fixture
    def port(self, start, ours) -> int:
        return serve(start, ours.sign("sidecar"), ca=ours)

    def test_one_of_our_authority_passes(self, port, ours):
        assert health(port, client_context(ours, ours.sign("scheduler"))) == 200

    def test_none_is_refused(self, port, ours):
        with pytest.raises(REFUSED):
            health(port, client_context(ours))

    def test_one_of_another_authority_is_refused(self, port, ours, theirs):
        with pytest.raises(REFUSED):
            health(port, client_context(ours, theirs.sign("scheduler")))

    def test_an_expired_one_is_refused(self, port, ours):
        with pytest.raises(REFUSED):
            health(port, client_context(ours, ours.sign("scheduler", A_DAY_AGO)))


class TestRotation:
    """The kubelet replaces the files of a secret while the sidecar runs."""

    def replace(self, old: Pair, new: Pair) -> None:
        for before, after in zip(old, new, strict=True):
            Path(after).replace(before)

    def test_the_next_handshake_uses_the_new_certificate(self, start, ours, theirs):
        pair = ours.sign("sidecar")
        port = serve(start, pair)
        self.replace(pair, theirs.sign("renewed"))
        assert health(port, client_context(theirs)) == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            health(port, client_context(ours))

    def test_a_new_client_authority_locks_the_old_one_out(self, start, ours, theirs, tmp_path):
        pair, authority = ours.sign("sidecar"), tmp_path / "clients.pem"
        shutil.copy(ours.file, authority)
        port = start(certificate_file=pair.certificate, key_file=pair.key, client_ca_file=str(authority))
        before, after = (client_context(ours, by.sign("scheduler")) for by in (ours, theirs))
        assert health(port, before) == 200
        shutil.copy(theirs.file, tmp_path / "new.pem")
        (tmp_path / "new.pem").replace(authority)
        assert health(port, after) == 200
        with pytest.raises(REFUSED):
            health(port, before)

    def test_files_that_do_not_belong_together_leave_the_old_in_force_and_say_so_once(self, start, ours, theirs, log):
        pair = ours.sign("sidecar")
        port = serve(start, pair)
        Path(theirs.sign("other").key).replace(pair.key)
        assert [health(port, client_context(ours)) for _ in range(3)] == [200, 200, 200]
        said = [record.message for record in log.records if "stays in use" in record.message]
        assert len(said) == 1
        assert "mismatch" in said[0]

    def test_files_that_vanish_leave_the_old_in_force(self, start, ours, log):
        pair = ours.sign("sidecar")
        port = serve(start, pair)
        Path(pair.certificate).unlink()
        assert health(port, client_context(ours)) == 200
        assert "No such file" in log.text


def test_a_certificate_that_is_missing_is_named(ours):
    pair = ours.sign("sidecar")
    with pytest.raises(InputError, match=r"nowhere\.crt.*No such file"):
        Certificates("nowhere.crt", pair.key, None)


def test_a_file_without_a_certificate_is_named(ours, tmp_path):
    (tmp_path / "empty.crt").touch()
    with pytest.raises(InputError, match=r"empty\.crt.*no PEM file"):
        Certificates(str(tmp_path / "empty.crt"), ours.sign("sidecar").key, None)


def test_a_client_ca_without_a_certificate_is_named(ours, tmp_path):
    (tmp_path / "ca.pem").write_text("nothing of the kind")
    with pytest.raises(InputError, match=r"client CA .*ca\.pem"):
        Certificates(*ours.sign("sidecar"), str(tmp_path / "ca.pem"))


@pytest.mark.timeout(10)  # it must not ask at the terminal
def test_an_encrypted_key_is_refused_without_asking_for_its_password(ours):
    with pytest.raises(InputError, match="encrypted key"):
        Certificates(*encrypted(ours.sign("sidecar"), b"secret"), None)
