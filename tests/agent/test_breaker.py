import pytest

from agent.breaker import Breaker


class ManualClock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def breaker(clock):
    return Breaker(clock, failures_to_open=3, cooldown_s=30.0)


def fail(breaker, times):
    for _ in range(times):
        breaker.failed()


def test_stays_closed_below_the_limit_of_failures(breaker):
    fail(breaker, 2)
    assert breaker.state == "closed"
    assert breaker.allows()


def test_opens_after_consecutive_failures(breaker):
    fail(breaker, 3)
    assert breaker.state == "open"
    assert not breaker.allows()


def test_a_success_between_failures_starts_the_count_again(breaker):
    fail(breaker, 2)
    breaker.succeeded()
    fail(breaker, 2)
    assert breaker.allows()


def test_stays_open_until_the_cooldown_has_passed(breaker, clock):
    fail(breaker, 3)
    clock.now_s += 29.9
    assert not breaker.allows()
    clock.now_s += 0.1
    assert breaker.state == "half-open"
    assert breaker.allows()


def test_half_open_lets_one_probe_through(breaker, clock):
    fail(breaker, 3)
    clock.now_s += 30.0
    assert [breaker.allows() for _ in range(3)] == [True, False, False]


def test_successful_probe_closes(breaker, clock):
    fail(breaker, 3)
    clock.now_s += 30.0
    assert breaker.allows()
    breaker.succeeded()
    assert breaker.state == "closed"
    fail(breaker, 2)
    assert breaker.state == "closed", "the count must start at zero again"


def test_failed_probe_opens_for_another_cooldown(breaker, clock):
    fail(breaker, 3)
    clock.now_s += 30.0
    assert breaker.allows()
    clock.now_s += 5.0
    breaker.failed()
    clock.now_s += 29.0
    assert not breaker.allows()
    clock.now_s += 1.0
    assert breaker.allows()


def test_a_probe_that_never_reports_is_replaced_after_another_cooldown(breaker, clock):
    fail(breaker, 3)
    clock.now_s += 30.0
    assert breaker.allows()
    clock.now_s += 30.0
    assert breaker.allows()


@pytest.mark.parametrize("wrong", [{"failures_to_open": 0}, {"cooldown_s": -1.0}, {"cooldown_s": float("nan")}])
def test_refuses_limits_that_make_no_sense(clock, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Breaker(clock, **wrong)
