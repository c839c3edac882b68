"""A certificate authority of our own: real certificates for the tests, made on the spot."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)
PLAIN = serialization.NoEncryption()


class Pair(NamedTuple):
    certificate: str
    key: str


class Authority:
    """Signs certificates for 127.0.0.1 and writes them, with their keys, into a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _name(name)
        certificate = (
            _builder(self._subject, self._subject, self._key, DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file = str(folder / f"{name}.pem")
        Path(self.file).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def sign(self, name: str, valid_for: timedelta = DAY) -> Pair:
        """A negative time makes a certificate that has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        certificate = (
            _builder(_name(name), self._subject, key, valid_for)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        pair = Pair(str(self._folder / f"{name}.crt"), str(self._folder / f"{name}.key"))
        Path(pair.certificate).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        Path(pair.key).write_bytes(_pem(key))
        return pair


def encrypted(pair: Pair, password: bytes) -> Pair:
    key = serialization.load_pem_private_key(Path(pair.key).read_bytes(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    Path(pair.key).write_bytes(_pem(key, serialization.BestAvailableEncryption(password)))
    return pair


def _pem(key: ec.EllipticCurvePrivateKey, encryption: serialization.KeySerializationEncryption = PLAIN) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, valid_for: timedelta
) -> x509.CertificateBuilder:
    end = datetime.now(UTC) + valid_for
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(datetime.now(UTC), end) - DAY)
        .not_valid_after(end)
    )
