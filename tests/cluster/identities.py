"""Who is who in the test cluster: a certificate authority, server certificates, tokens, and a kubeconfig for each."""

from __future__ import annotations

import datetime
import ipaddress
import secrets
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=2)

ADMIN = "admin"  # the harness itself; nothing that is under test ever holds its token
CONTROLLER_MANAGER = "system:kube-controller-manager"
SCHEDULER = "system:kube-scheduler"
GROUPS = {ADMIN: "system:masters"}


@dataclass(frozen=True)
class KeyPair:
    certificate: Path
    key: Path


class Authority:
    """Signs the certificates of one test run; its key never leaves this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pilotfish tests")])
        builder = _builder(self._name, self._name, self._key)
        self.certificate = folder / "ca.crt"
        signed = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.certificate.write_bytes(_pem(signed.sign(self._key, hashes.SHA256())))

    def loopback_pair(self, name: str) -> KeyPair:
        """A certificate for servers on the loopback address, and for clients."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        hosts = x509.SubjectAlternativeName(
            [
                x509.DNSName("localhost"),
                x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            ]
        )
        purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = _builder(subject, self._name, key).add_extension(hosts, critical=False)
        signed = builder.add_extension(purposes, critical=False).sign(self._key, hashes.SHA256())
        pair = KeyPair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        pair.certificate.write_bytes(_pem(signed))
        _write_private(pair.key, key)
        return pair


def service_account_keys(folder: Path) -> KeyPair:
    """The pair that signs and checks tokens of service accounts; the first is a bare public key."""
    key = ec.generate_private_key(ec.SECP256R1())
    pair = KeyPair(folder / "service-accounts.pub", folder / "service-accounts.key")
    pair.certificate.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    _write_private(pair.key, key)
    return pair


class Tokens:
    """The static tokens of the control plane's own parts; service accounts get theirs from the API server."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "tokens.csv"
        self._by_user = {user: secrets.token_hex(16) for user in (ADMIN, CONTROLLER_MANAGER, SCHEDULER)}
        rows = (f'{token},{user},{user},"{GROUPS.get(user, "")}"' for user, token in self._by_user.items())
        self.file.touch(mode=0o600)
        self.file.write_text("\n".join(rows) + "\n")

    def of(self, user: str) -> str:
        return self._by_user[user]


def write_kubeconfig(path: Path, server: str, authority: Path, token: str) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write_private(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
