"""The check of the container, against sidecars that it may and may not speak to."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.serving.security.conftest import free_port


def checks(port: int, **security: str) -> bool:
    """The check as the container runs it."""
    environment = {"PILOTFISH_SERVER__PORT": str(port), **security}
    done = subprocess.run([sys.executable, "-m", "serving.healthcheck"], env=environment, timeout=20, check=False)
    return done.returncode == 0


@pytest.fixture
def pair(ours):
    return ours.sign("sidecar")


def test_a_sidecar_that_answers_is_healthy(start):
    assert checks(start())


def test_one_that_is_not_there_is_not():
    assert not checks(free_port())


def test_tokens_do_not_lock_the_check_out(start, token_file):
    assert checks(start(token_file=token_file))


@pytest.mark.parametrize("client_certificates", [False, True])
def test_over_tls_too(start, ours, pair, client_certificates):
    files = {"certificate_file": pair.certificate, "key_file": pair.key}
    files |= {"client_ca_file": ours.file} if client_certificates else {}
    port = start(**files)
    environment = {f"PILOTFISH_SECURITY__{name.upper()}": file for name, file in files.items()}
    assert checks(port, **environment)
    assert not checks(port)
    assert not checks(free_port(), **environment)


def test_it_loads_nothing_that_takes_time(start):
    look = "import sys, serving.healthcheck; sys.exit(', '.join(m for m in ('numpy', 'fastapi') if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=20, check=False)
    assert done.stderr.strip() == ""
