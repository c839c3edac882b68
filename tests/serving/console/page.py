"""The console as a person meets it: looked at and clicked through a browser."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains

T = TypeVar("T")

NOT_LOUD = ("DEBUG", "INFO")


class Page:
    def __init__(self, driver: Chrome) -> None:
        self.driver = driver
        self.expected: tuple[str, ...] = ()  # parts of messages that are no surprise
        self._address = ""

    def open(self, address: str) -> None:
        self._address = address
        self.driver.get(address)

    def leave(self) -> None:
        self.driver.get("about:blank")

    def forget(self) -> None:
        """No log and no token of an earlier test."""
        for log in ("browser", "performance"):
            self.driver.get_log(log)
        self.cdp("Storage.clearDataForOrigin", origin="*", storageTypes="all")

    def cdp(self, command: str, **parameters: Any) -> Any:
        return self.driver.execute_cdp_cmd(command, parameters)

    def add_headers(self, **headers: str) -> None:
        """To every request from now on, as a proxy would."""
        self.cdp("Network.setExtraHTTPHeaders", headers=headers)

    def resize(self, width: int, height: int) -> None:
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme: str) -> None:
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(f"return {script}", *arguments)

    def texts(self, selector: str) -> list[str]:
        return self.run("[...document.querySelectorAll(arguments[0])].map((e) => e.innerText.trim())", selector)

    def text(self, selector: str) -> str:
        return " ".join(self.texts(selector))

    def attributes(self, selector: str, name: str) -> list[str | None]:
        return self.run(
            "[...document.querySelectorAll(arguments[0])].map((e) => e.getAttribute(arguments[1]))", selector, name
        )

    def styles(self, selector: str, name: str) -> list[str]:
        return self.run(
            "[...document.querySelectorAll(arguments[0])].map((e) => getComputedStyle(e)[arguments[1]])", selector, name
        )

    def count(self, selector: str) -> int:
        return self.run("document.querySelectorAll(arguments[0]).length", selector)

    def click(self, selector: str) -> None:
        self.driver.find_element("css selector", selector).click()

    def press(self, *keys: str) -> None:
        ActionChains(self.driver).send_keys(*keys).perform()

    def focused(self) -> str | None:
        """The label of what has the focus."""
        return self.run("document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText")

    def wait_for(self, look: Callable[[], T], within_s: float = 10.0) -> T:
        """What ``look`` sees as soon as it is something."""
        until_s = time.monotonic() + within_s
        while not (seen := look()):
            assert time.monotonic() < until_s, (
                f"not seen within {within_s:g} s; the page says: {self.text('body')[:800]}"
            )
            time.sleep(0.05)
        return seen

    def connection(self) -> str:
        return self.text("#connection")

    def errors(self) -> list[str]:
        said = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] not in NOT_LOUD]
        return [message for message in said if not any(part in message for part in self.expected)]

    def strangers(self) -> list[str]:
        """Addresses that were asked for and are not of the sidecar."""
        origin = urlsplit(self._address).netloc
        return [url for url in self._requested() if urlsplit(url).netloc not in (origin, "", "blank")]

    def _requested(self) -> list[str]:
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]
