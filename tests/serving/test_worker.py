import threading
import time

import pytest

from serving.worker import TRUSTED_AFTER, Worker


@pytest.fixture
def worker():
    return Worker()


def test_the_result_and_the_error_come_back(worker):
    assert worker.within(lambda: 5, 5.0) == 5
    with pytest.raises(ZeroDivisionError):
        worker.within(lambda: 1 / 0, 5.0)
    assert worker.within(threading.current_thread, 5.0).name == "policy"


def test_nobody_waits_longer_than_its_limit(worker):
    go = threading.Event()
    began_s = time.monotonic()
    with pytest.raises(TimeoutError, match="did not answer within 50 ms"):
        worker.within(lambda: go.wait(5), 0.05)
    with pytest.raises(TimeoutError, match="busy with an earlier question"):
        worker.within(lambda: 1, 0.05)
    assert time.monotonic() - began_s < 1.0
    go.set()
    assert worker.within(lambda: 2, 5.0) == 2, "the late result is nobody's"


def test_work_that_never_ends_is_given_up_for_a_new_thread(worker, monkeypatch):
    monkeypatch.setattr("serving.worker.GIVEN_UP_AFTER_S", 0.0)
    go = threading.Event()
    for _ in range(2):
        with pytest.raises(TimeoutError):
            worker.within(lambda: go.wait(30), 0.02)
    assert worker.within(lambda: 3, 5.0) == 3
    go.set()


def test_several_threads_take_turns(worker):
    results = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(worker.within(lambda: n * n, 10.0))) for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [n * n for n in range(20)]


def computes_for_long() -> None:
    until_s = time.thread_time() + 0.05
    while time.thread_time() < until_s:
        pass


def is_late() -> None:
    time.sleep(0.15)


@pytest.mark.parametrize("slow", [computes_for_long, is_late])
def test_what_was_quick_many_times_is_done_without_the_thread_until_it_is_slow_once(worker, slow):
    def who() -> str:
        return worker.within(threading.current_thread, 5.0).name

    here = threading.current_thread().name
    assert [who() for _ in range(TRUSTED_AFTER + 1)] == ["policy"] * TRUSTED_AFTER + [here]
    worker.within(slow, 0.1)
    assert who() == "policy"


def test_a_wait_for_the_processor_costs_no_trust(worker, monkeypatch):
    """Where all cores are busy, waking the thread takes long and the work is interrupted; neither is its fault."""
    hand_over = worker._hand_over
    monkeypatch.setattr(worker, "_hand_over", lambda job: (time.sleep(0.02), hand_over(job)))
    for _ in range(TRUSTED_AFTER):
        worker.within(lambda: time.sleep(0.02), 0.1)
    assert worker.within(threading.current_thread, 0.1) is threading.current_thread()


def test_work_that_fails_quickly_says_so_with_or_without_the_thread(worker):
    for _ in range(TRUSTED_AFTER + 2):
        with pytest.raises(ZeroDivisionError):
            worker.within(lambda: 1 / 0, 5.0)


def test_handing_over_is_cheap(worker, monkeypatch):
    monkeypatch.setattr("serving.worker.TRUSTED_AFTER", 1 << 30)

    def timed(call):
        began_s = time.perf_counter()
        for _ in range(2000):
            call()
        return (time.perf_counter() - began_s) / 2000

    worker.within(lambda: 1, 1.0)
    best = min(timed(lambda: worker.within(lambda: 1, 1.0)) for _ in range(5))
    assert best < 0.1e-3, "on the path of every pod"
