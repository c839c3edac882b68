"""The console of a demo, as somebody sees it who has just typed `make run`."""

from __future__ import annotations

import re
import signal

import pytest

from tests.serving.leaving import WITHIN_S, seconds_to_leave
from tests.serving.test_run import free_port, pilotfish, wait_until_ready

pytestmark = pytest.mark.timeout(180)  # a browser and a sidecar start, on a machine that may be busy

SPEED = {"PILOTFISH_SIMULATION__SPEED": "10"}  # decisions several times a second


@pytest.fixture
def port():
    return free_port()


@pytest.fixture
def start(port, model_folder):
    """Starts a demo on the port, also a second time."""
    processes = []

    def start():
        process = pilotfish("demo", "--port", str(port), PILOTFISH_MODEL__FOLDER=str(model_folder), **SPEED)
        processes.append(process)
        wait_until_ready(process, port)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def demo(start):
    return start()


@pytest.fixture
def console(page, demo, port):
    page.open(f"http://127.0.0.1:{port}/")
    page.wait_for(lambda: page.count(".tile"))
    yield page
    page.leave()


def test_the_front_door_leads_to_tiles_by_zone_each_with_a_number_and_its_age(console):
    assert console.run("location.pathname") == "/console"
    assert len(console.texts(".zone h3")) == 3
    tiles = console.texts(".tile")
    assert len(tiles) == 20
    assert [tile for tile in tiles if not re.fullmatch(r"\d{3}\s(\d+%\s\d+ s|unknown)", tile)] == []
    assert [tile for tile in tiles if "%" in tile]


def test_the_switch_changes_numbers_and_colours(console):
    def seen():
        return console.texts(".tile"), console.styles(".tile", "backgroundColor")

    nic = seen()
    console.click("input[value=memory]")
    console.wait_for(lambda: seen()[0] != nic[0])
    console.wait_for(lambda: seen()[1] != nic[1])
    assert all("Memory" in label for label in console.attributes(".tile", "aria-label"))


def test_decisions_stream_in_with_source_time_and_node(console):
    def numbers():
        return [int(number) for number in console.attributes("#decisions tbody tr", "data-number")]

    first = console.wait_for(numbers)
    later = console.wait_for(lambda: numbers() if numbers()[0] > first[0] + 3 else None, within_s=20.0)
    assert later == sorted(later, reverse=True)
    row = console.texts("#decisions tbody tr:first-child td")
    assert row[1].startswith("node-")
    assert row[2] == "same" or row[2].startswith("node-")
    assert row[3] == "policy"
    assert re.fullmatch(r"[\d.]+ ms", row[4])
    assert console.texts("#ladder [aria-current=step]") == ["policy"]


def test_a_click_on_a_decision_shows_what_moved_its_score(console):
    console.wait_for(lambda: console.count("#decisions tbody tr"))
    console.click("#pause")
    pod, node = console.texts("#decisions tbody tr:first-child td")[:2]
    console.click("#decisions tbody tr:first-child")
    assert console.text("#detail-title") == f"Why {pod} → {node}"
    console.wait_for(lambda: console.count(".bars .bar"))
    assert console.attributes(".bars", "aria-label")[0].startswith(f"{node} scores ")
    widths = [float(width.removesuffix("px")) for width in console.styles(".bars .bar i", "width")]
    assert max(widths) > 20.0
    assert re.fullmatch(r"[+−][\d.e-]+", console.texts(".bars .number")[0])
    assert console.texts("#detail-body tbody tr:first-child td")[0] == node
    assert console.attributes(".tile[aria-pressed=true]", "data-node") == [node]


def test_a_killed_sidecar_is_told_and_its_successor_is_followed(console, demo, start):
    console.expected = (
        "ERR_CONNECTION_REFUSED",
        "ERR_CONNECTION_RESET",
        "ERR_CONTENT_LENGTH_MISMATCH",  # cut off within an answer
        "ERR_INCOMPLETE_CHUNKED_ENCODING",
    )
    demo.kill()
    demo.wait()
    console.wait_for(lambda: "connection lost" in console.connection())
    ages = [label for label in console.attributes(".tile", "aria-label") if "%" in label]
    console.wait_for(lambda: [label for label in console.attributes(".tile", "aria-label") if "%" in label] != ages)
    start()
    console.wait_for(lambda: console.connection() == "live", within_s=20.0)
    console.wait_for(lambda: console.count("#decisions tbody tr"))


def test_a_sidecar_that_is_told_to_stop_does_not_wait_for_open_consoles(console, demo, port):
    console.expected = ("ERR_CONNECTION_REFUSED",)
    console.wait_for(lambda: console.connection() == "live")
    demo.send_signal(signal.SIGTERM)
    assert seconds_to_leave(demo.pid) < WITHIN_S
    _, said = demo.communicate(timeout=10.0)
    assert "ERROR" not in said
    assert f"open the console in a browser: http://127.0.0.1:{port}/console\n" in said
    console.wait_for(lambda: "connection lost" in console.connection())
