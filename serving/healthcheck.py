"""Asks the sidecar of this container whether it lives, or is ready: for the HEALTHCHECK of the image and exec probes.

Standard library and environment only: a check every few seconds must not load what the sidecar loads. Where client
certificates are required it has none to show; that the sidecar finished its part of the handshake must do then.
"""

from __future__ import annotations

import http.client
import os
import ssl
import sys
from collections.abc import Mapping

TIMEOUT_S = 2.0
ANY_ADDRESS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


def is_healthy(environment: Mapping[str, str], path: str = "/healthz") -> bool:
    connection = _connection(environment)
    try:
        connection.connect()
        if environment.get("PILOTFISH_SECURITY__CLIENT_CA_FILE"):
            return True
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _connection(environment: Mapping[str, str]) -> http.client.HTTPConnection:
    host = environment.get("PILOTFISH_SERVER__HOST", "")
    address = ANY_ADDRESS.get(host, host), int(environment.get("PILOTFISH_SERVER__PORT", "8000"))
    if not environment.get("PILOTFISH_SECURITY__CERTIFICATE_FILE"):
        return http.client.HTTPConnection(*address, timeout=TIMEOUT_S)
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # it asks itself: there is nobody else to be mistaken for
    return http.client.HTTPSConnection(*address, timeout=TIMEOUT_S, context=context)


if __name__ == "__main__":
    sys.exit(not is_healthy(os.environ, *sys.argv[1:2]))
