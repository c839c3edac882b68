"""Standing open to other machines must be somebody's decision, not an oversight."""

from __future__ import annotations

import ipaddress
import logging

from agent.errors import InputError
from serving.settings import SecuritySettings

logger = logging.getLogger(__name__)


def check_exposure(host: str, security: SecuritySettings) -> None:
    """Refuses to listen beyond loopback with neither TLS nor tokens, unless that is allowed by name."""
    if security.token_file and not security.client_ca_file:
        logger.warning(
            "kube-scheduler cannot send a token: its calls will be refused; set "
            "PILOTFISH_SECURITY__CLIENT_CA_FILE and give it a client certificate"
        )
    if is_loopback(host) or security.certificate_file or security.token_file:
        return
    if not security.allow_insecure:
        raise InputError(
            f"{host} is open to other machines: set PILOTFISH_SECURITY__CERTIFICATE_FILE and __KEY_FILE, or "
            "__TOKEN_FILE, or PILOTFISH_SECURITY__ALLOW_INSECURE=true if something else protects it"
        )
    logger.warning("anybody who reaches %s may ask and change what this sidecar offers: allow_insecure is set", host)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
