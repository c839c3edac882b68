"""Binding a pod through the API server."""

from __future__ import annotations

import pytest

from envs.live.binding import Binding, BindingRefused
from envs.live.kubernetes.access import Access
from envs.live.kubernetes.api import ApiServer
from envs.live.kubernetes.binding import ApiBinder

BINDING = Binding("shop", "web-1", "uid-1", "node-a")


def test_binding_is_posted_with_the_uid(api):
    ApiBinder(ApiServer(Access(api.url))).bind(BINDING)
    (path, body), *_ = api.posted
    assert path == "/api/v1/namespaces/shop/pods/web-1/binding"
    assert body["metadata"]["uid"] == "uid-1"
    assert body["target"]["name"] == "node-a"


def test_refusal_says_what_the_server_said(api):
    api.post_status = 409
    with pytest.raises(BindingRefused, match="409: as the test said"):
        ApiBinder(ApiServer(Access(api.url))).bind(BINDING)


def test_server_that_is_away_is_a_refusal(api):
    api.stop()
    with pytest.raises(BindingRefused, match="refused"):
        ApiBinder(ApiServer(Access(api.url)), within_s=0.5).bind(BINDING)
