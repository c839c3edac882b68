"""The console over a cluster that stands still: what it says of figures that are old, missing or hostile."""

from __future__ import annotations

import itertools
import re
import time
from dataclasses import replace

import httpx
import numpy as np
import pytest
from selenium.webdriver.common.keys import Keys

from agent.nodetable import NodeTable
from envs.live.snapshot import Snapshot
from serving.app import create_app
from serving.settings import SecuritySettings, ServerSettings
from tests.serving.conftest import StillSource, a_snapshot

HOSTILE = "<img src=x onerror=document.title='pwned'>"
SCHEMES = ("light", "dark")
ENOUGH_CONTRAST = 4.5  # WCAG AA for text of this size


@pytest.fixture
def app(settings, source, decider, metrics):
    return create_app(settings, source, decider, metrics)


@pytest.fixture
def console(page, serve, app):
    page.open(f"{serve(app)}/console")
    page.wait_for(lambda: page.connection() == "live")
    yield page
    page.leave()


def score(console, **requirements) -> dict:
    address = console.run("location.origin")
    return httpx.post(f"{address}/v1/score", json={"requirements": requirements}).raise_for_status().json()


def a_decision(console, **requirements) -> None:
    before = console.count("#decisions tbody tr")
    score(console, **requirements)
    console.wait_for(lambda: console.count("#decisions tbody tr") > before)


def larger(snapshot: Snapshot, copies: int) -> Snapshot:
    """The same nodes many times over, in ten zones."""
    state, count = snapshot.state, len(snapshot.nodes) * copies
    columns = {
        name: np.concatenate([getattr(state, name)] * copies)
        for name in state.__dataclass_fields__
        if name != "zone_rtt_ms"
    }
    nodes = (replace(snapshot.nodes[i % 5], name=f"node-{i:04d}", zone=f"zone-{i % 10}") for i in range(count))
    return replace(snapshot, nodes=NodeTable(nodes), state=replace(state, **columns), pods_by_app={})


class TestLongNames:
    @pytest.fixture
    def source(self):
        snapshot = a_snapshot()
        nodes = (replace(node, name=f"ip-10-0-{i}-23.eu-west-1.internal") for i, node in enumerate(snapshot.nodes))
        return StillSource(replace(snapshot, nodes=NodeTable(nodes)))

    def test_are_shown_by_the_part_that_differs_and_told_whole(self, console):
        console.wait_for(lambda: console.count(".tile"))
        assert sorted(text.split("\n")[0] for text in console.texts(".tile")) == [f"{i}-23" for i in range(5)]
        assert console.attributes(".tile", "aria-label")[0].startswith("ip-10-0-0-23.eu-west-1.internal: NIC")


class TestEmpty:
    @pytest.fixture
    def source(self):
        return StillSource(None)

    def test_without_nodes_and_decisions_it_says_what_to_do(self, console):
        assert "No nodes yet" in console.text("#no-nodes")
        assert "/readyz" in console.text("#no-nodes")
        assert "curl -s http://127.0.0.1" in console.text("#no-decisions")
        assert "unknown" in console.text("#facts")


class TestRefused:
    @pytest.fixture
    def settings(self, settings):
        return settings.model_copy(update={"server": ServerSettings(max_event_streams=0)})

    def test_why_there_is_no_stream_is_told(self, page, serve, app):
        page.expected = ("503 (Service Unavailable)",)
        page.open(f"{serve(app)}/console")
        page.wait_for(lambda: "connection lost (0 event streams are open already" in page.connection())
        page.leave()


class TestToken:
    TOKEN = "a-token-of-some-length"

    @pytest.fixture
    def settings(self, settings, tmp_path):
        (tmp_path / "tokens").write_text(f"{self.TOKEN}\n")
        return settings.model_copy(update={"security": SecuritySettings(token_file=str(tmp_path / "tokens"))})

    def test_it_is_asked_for_until_it_is_right_and_kept_for_the_tab(self, page, serve, app):
        page.expected = ("401 (Unauthorized)",)
        page.open(f"{serve(app)}/console")
        page.wait_for(lambda: page.run("document.querySelector('dialog').open"))
        page.press("wrong", Keys.ENTER)
        page.wait_for(lambda: "not accepted" in page.text("#token-why"))
        page.press(self.TOKEN, Keys.ENTER)
        page.wait_for(lambda: page.connection() == "live")
        assert not page.run("document.querySelector('dialog').open")
        assert list(page.run("({...sessionStorage})").values()) == [self.TOKEN]
        assert page.run("localStorage.length") == 0
        assert self.TOKEN not in page.run("document.documentElement.outerHTML + location + document.cookie")


def test_old_and_missing_figures_are_told_as_such(console, source, clock):
    snapshot = a_snapshot(clock.now_s)
    ages = np.array([5.0, 200.0, np.inf, 5.0, 5.0])
    nic = np.array([1000.0, 1000.0, 1000.0, np.nan, 1000.0])
    source.current = replace(snapshot, state=replace(snapshot.state, network_age_s=ages, nic_mbps=nic))
    console.wait_for(lambda: "3 without a fresh figure" in console.text("#nodes-title"))
    tiles = dict(zip(console.attributes(".tile", "data-node"), console.texts(".tile"), strict=True))
    assert tiles["idle"].split("\n") == ["idle", "1%", "5 s"]
    assert tiles["busy"].split("\n")[1:] == ["(90%)", "3 min old"]
    assert tiles["middle"].split("\n")[1:] == ["unknown"]
    assert tiles["tainted"].split("\n")[1:] == ["unknown"]
    assert console.count(".tile.stale") == 1
    assert console.count(".tile.unknown") == 2


def test_names_from_the_network_are_text_and_nothing_else(console, source):
    snapshot = a_snapshot()
    nodes = NodeTable(replace(node, name=f"{HOSTILE}{node.name}", zone=HOSTILE) for node in snapshot.nodes)
    source.current = replace(snapshot, nodes=nodes)
    console.wait_for(lambda: HOSTILE in console.text(".zone h3"))
    a_decision(console, name=HOSTILE, namespace=HOSTILE)
    console.click("#decisions tbody .link")
    console.wait_for(lambda: HOSTILE in console.text("#detail-title"))
    console.click(".tile")
    console.wait_for(lambda: "Node <img" in console.text("#detail-title"))
    assert console.count("img") == 0
    assert console.run("document.title") == "Pilotfish"


def test_a_decision_shows_its_next_best_nodes_and_what_was_filtered(console):
    a_decision(console, name="web-1", uid="u1", network_mbps=20)
    console.click("#decisions tbody .link")
    console.wait_for(lambda: console.text("#detail-title").startswith("Why web-1 → "))
    body = console.text("#detail-body")
    assert "Best of 4 candidates" in body
    assert "Filtered" in body
    assert "1 node" in body


def test_the_figures_of_a_node_go_on_changing_while_they_are_looked_at(console, clock):
    console.click(".tile[data-node=busy]")
    assert console.texts("#detail-body tbody tr:first-child td")[:3] == ["900 Mbit/s", "1,000 Mbit/s", "90%"]
    assert re.fullmatch(r"\d s", console.texts("#detail-body td:last-child")[0])
    clock.now_s += 300.0
    console.wait_for(lambda: console.texts("#detail-body td:last-child")[0] == "5 min, stale")


def test_where_the_pod_was_really_bound_is_told_when_it_is_known(console, decider):
    a_decision(console, name="web-1", uid="u1")
    assert console.texts("#decisions tbody td:nth-child(3)") == ["–"]
    decider.decisions.on_bound("u1", "small")
    console.wait_for(lambda: console.texts("#decisions tbody td:nth-child(3)") == ["small"])


def test_a_pod_that_fits_nowhere_is_told_as_such(console):
    a_decision(console, name="huge", cpu="900")
    assert console.texts("#decisions tbody td:nth-child(2)") == ["no node fits"]


def test_an_open_breaker_and_the_step_that_answers_instead_are_told(console, decider):
    for _ in range(3):
        decider.ladder.steps[0].breaker.failed()
    a_decision(console, name="web-1")
    console.wait_for(lambda: "expected_utilisation: breaker open" in console.texts("#ladder li"))
    assert console.texts("#ladder [aria-current=step]") == ["least_allocated"]


def test_the_keyboard_reaches_tiles_and_decisions(console):
    a_decision(console, name="web-1")
    console.run("document.querySelector('input[name=colour-by]').focus()")
    console.press(Keys.TAB)
    assert re.match(r"idle: NIC 1%, \d s old", console.focused())
    console.press(Keys.ARROW_RIGHT)
    assert re.match(r"middle: NIC 30%, \d s old", console.focused())
    console.press(Keys.ENTER)
    console.wait_for(lambda: console.text("#detail-title") == "Node middle")
    console.press(Keys.TAB, Keys.TAB, Keys.ENTER)
    console.wait_for(lambda: console.text("#detail-title").startswith("Why web-1"))


def test_pausing_holds_the_list_and_going_on_catches_up(console):
    a_decision(console, name="first")
    console.click("#pause")
    score(console, name="second")
    console.wait_for(lambda: "1 waiting" in console.text("#rate"))
    assert console.count("#decisions tbody tr") == 1
    console.click("#pause")
    assert console.texts("#decisions tbody .link") == ["second", "first"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_colour_of_the_scale_carries_readable_text(console, scheme):
    console.prefer(scheme)
    colours = zip(console.styles("#scale span", "color"), console.styles("#scale span", "backgroundColor"), strict=True)
    measured = [contrast(ink, paper) for ink, paper in list(colours)[:-1]]
    assert len(measured) == 6
    assert min(measured) >= ENOUGH_CONTRAST
    page = contrast(console.styles("body", "color")[0], console.styles("body", "backgroundColor")[0])
    assert page >= ENOUGH_CONTRAST


@pytest.mark.parametrize("scheme", SCHEMES)
def test_lightness_alone_tells_the_colours_apart(console, scheme):
    """What somebody without any sense of colour sees: each step further away from the page's own colour."""
    console.prefer(scheme)
    paper = luminance(console.styles("body", "backgroundColor")[0])
    steps = [luminance(colour) for colour in console.styles("#scale span", "backgroundColor")[:6]]
    assert steps == sorted(steps, reverse=paper > 0.5)
    assert all(contrast_of(one, other) > 1.1 for one, other in itertools.pairwise(steps))


def test_dark_is_dark(console):
    console.prefer("dark")
    assert luminance(console.styles("body", "backgroundColor")[0]) < 0.05
    console.prefer("light")
    assert luminance(console.styles("body", "backgroundColor")[0]) > 0.9


@pytest.mark.parametrize("width", [320, 390, 1024])
def test_nothing_sticks_out_of_a_narrow_screen(console, source, width):
    a_decision(console, name="a-deployment-with-quite-a-long-name-7d4b9c6f5d-x2x9z")
    console.click("#decisions tbody .link")
    console.resize(width, 800)
    console.wait_for(lambda: console.run("innerWidth") == width)
    assert console.run("document.scrollingElement.scrollWidth") <= width


def test_a_thousand_nodes_leave_the_browser_idle(console, source, clock):
    source.current = larger(a_snapshot(), copies=200)
    console.wait_for(lambda: console.count(".tile") == 1000)
    console.cdp("Performance.enable", timeDomain="threadTicks")  # of its CPU: the machine may have other work
    before_s, began_s = busy_s(console), time.monotonic()
    for _ in range(8):
        clock.now_s += 1.0  # so that every tile shows another age
        time.sleep(0.5)
    share = (busy_s(console) - before_s) / (time.monotonic() - began_s)
    print(f"main thread busy {100 * share:.1f} % of the time with 1,000 nodes")  # noqa: T201
    assert share < 0.25


def busy_s(console) -> float:
    metrics = console.cdp("Performance.getMetrics")["metrics"]
    return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")


def contrast(one: str, other: str) -> float:
    return contrast_of(luminance(one), luminance(other))


def contrast_of(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def luminance(colour: str) -> float:
    """Relative luminance of an rgb(...) colour, as WCAG defines it."""
    channels = [int(part) / 255 for part in colour.partition("(")[2].rstrip(")").split(",")[:3]]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
