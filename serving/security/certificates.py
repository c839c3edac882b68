"""TLS with files that may change: each handshake looks whether they did, so that a rotation needs no restart.

A connection that stands keeps the certificate it began with. A pair of files that cannot be used (half written, not
belonging together) leaves the one before in force and says so once.
"""

from __future__ import annotations

import logging
import ssl

from agent.errors import InputError
from serving.security.watched import stamp
from serving.settings import SecuritySettings

logger = logging.getLogger(__name__)


class Certificates:
    """The context that a listener uses, and behind it the newest one that could be read."""

    def __init__(self, certificate_file: str, key_file: str, client_ca_file: str | None) -> None:
        self._files = (certificate_file, key_file, client_ca_file)
        self._watched = tuple(file for file in self._files if file)
        self._stamp = stamp(*self._watched)
        self._current = _new_context(*self._files)
        self.context = _new_context(*self._files)
        self.context.sni_callback = self._hand_over

    def _hand_over(self, handshake: ssl.SSLObject, server_name: str | None, context: ssl.SSLContext) -> None:
        """Python calls this for every handshake, with or without a server name."""
        self._look()
        handshake.context = self._current

    def _look(self) -> None:
        now = stamp(*self._watched)
        if now == self._stamp:
            return
        self._stamp = now
        try:
            self._current = _new_context(*self._files)
        except InputError as why:
            logger.warning("%s; the certificate before it stays in use", why)
        else:
            logger.info("certificates were read again: %s", ", ".join(self._watched))


def certificates_of(security: SecuritySettings) -> Certificates | None:
    if security.certificate_file is None or security.key_file is None:
        return None
    return Certificates(security.certificate_file, security.key_file, security.client_ca_file)


def _new_context(certificate_file: str, key_file: str, client_ca_file: str | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3  # every kube-scheduler that we serve speaks it
    context.num_tickets = 0  # a resumed session would skip the check of the client's certificate
    try:
        # An encrypted key would ask at the terminal for its password: this one is simply wrong.
        context.load_cert_chain(certificate_file, key_file, password="")
    except (OSError, ValueError) as why:
        raise InputError(f"cannot use certificate {certificate_file} with key {key_file}: {_reason(why)}") from None
    if client_ca_file:
        _require_client_certificates(context, client_ca_file)
    return context


def _require_client_certificates(context: ssl.SSLContext, client_ca_file: str) -> None:
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(client_ca_file)
    except (OSError, ValueError) as why:
        raise InputError(f"cannot use client CA {client_ca_file}: {_reason(why)}") from None


def _reason(why: Exception) -> str:
    if isinstance(why, ssl.SSLError):
        return why.reason.replace("_", " ").lower() if why.reason else "no PEM file, or an encrypted key"
    return getattr(why, "strerror", None) or str(why)
