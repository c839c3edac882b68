"""A real Chromium, and sidecars for it to look at: a demo in a process of its own, or one over a cluster made here."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from fastapi import FastAPI
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from serving.listening import Server
from tests.serving.console.page import Page

PROGRAMS = ("chromium", "chromedriver")


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        pytest.fail(f"{', '.join(missing)} not found: run tests/system_packages.sh as root")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    # No sandbox, because CI runs as root in a container; the pages are our own.
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture
def page(browser) -> Iterator[Page]:
    """The browser as for a first visit; afterwards nothing may have gone wrong in it that the test did not expect."""
    page = Page(browser)
    page.resize(1280, 800)
    page.prefer("light")
    page.forget()
    yield page
    assert page.errors() == []
    assert page.strangers() == []


@pytest.fixture
def serve() -> Iterator[Callable[[FastAPI], str]]:
    """Serves an application on a free port, as ``serving.run`` would; gives its address."""
    servers: list[tuple[Server, threading.Thread]] = []

    def start(app: FastAPI) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        server = Server(app, app.state.sidecar.settings, app.state.sidecar.streams.stop)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        servers.append((server, thread))
        until_s = time.monotonic() + 10.0
        while not server.started:
            assert time.monotonic() < until_s, "the server did not start"
            time.sleep(0.01)
        return "http://{}:{}".format(*listener.getsockname())

    yield start
    for server, thread in servers:
        server.should_exit = True
        thread.join(5.0)
