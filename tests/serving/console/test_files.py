"""The page as files: served from the package, and from nowhere else."""

from __future__ import annotations

import re

import pytest

from serving.routes.console import FOLDER

FILES = sorted(file.name for file in FOLDER.iterdir())


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_served_with_its_type_and_a_strict_policy(client, name):
    reply = client.get(f"/console/{name}")
    assert reply.content == (FOLDER / name).read_bytes()
    assert reply.headers["content-type"] != "text/plain"
    policy = dict(rule.strip().split(" ", 1) for rule in reply.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert {policy[kind] for kind in ("script-src", "style-src", "connect-src", "img-src")} == {"'self'"}
    assert reply.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["..%2Fapp.py", "%2e%2e/settings.py", "nothing.js", "__init__.py", "%2Fetc%2Fpasswd"])
def test_nothing_else_is_served(client, path):
    assert client.get(f"/console/{path}").status_code == 404


def test_the_front_door_leads_to_the_page(client):
    reply = client.get("/", follow_redirects=False)
    assert (reply.status_code, reply.headers["location"]) == (307, "console")
    assert "text/html" in client.get("/").headers["content-type"]


def test_the_page_is_no_part_of_the_described_api(client):
    described = client.get("/openapi.json").json()["paths"]
    assert "/v1/events" in described
    assert not [path for path in described if "console" in path]


@pytest.mark.parametrize("name", FILES)
def test_no_file_names_another_address_or_writes_html(name):
    text = (FOLDER / name).read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert (
        re.findall(r"https?://|//cdn|@import|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text) == []
    )
