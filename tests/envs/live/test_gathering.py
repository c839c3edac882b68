"""A watch is read in few wake-ups, and never slower than its news come."""

import pytest

from envs.live.kubernetes import api


class Time:
    """Chunks come at these moments; reading one that is there takes no time."""

    def __init__(self):
        self.now_s, self.slept = 0.0, []

    def monotonic(self):
        return self.now_s

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now_s += seconds

    def chunks(self, moments):
        for moment_s in moments:
            self.now_s = max(self.now_s, moment_s)
            yield b"x"


@pytest.fixture
def time(monkeypatch):
    clock = Time()
    monkeypatch.setattr(api, "time", clock)
    return clock


def test_those_that_follow_the_first_are_read_with_it(time):
    moments = [1.0, 1.01, 1.02, 1.03]
    assert len(list(api._gathered(time.chunks(moments)))) == 4
    assert time.slept == [api.GATHER_S]


def test_each_swarm_has_a_pause_of_its_own(time):
    list(api._gathered(time.chunks([1.0, 1.01, 2.0, 2.01])))
    assert time.slept == [api.GATHER_S] * 2


def test_a_storm_has_no_pause(time):
    list(api._gathered(time.chunks([0.0] * 1000)))
    assert time.slept == []


def test_waits_too_short_for_another_swarm_have_no_pause(time):
    """Whoever waits for Python's lock while he reads must not fall behind."""
    list(api._gathered(time.chunks([1.0 + api.GATHER_S + 0.0003 * number for number in range(10)])))
    assert len(time.slept) == 1
