import os
import threading
import time

import pytest

from serving.watching import Watcher


@pytest.fixture
def watched(tmp_path):
    path, told = tmp_path / "file", []
    path.write_text("one")
    watcher = Watcher(every_s=0)
    watcher.watch(lambda: [path], lambda: told.append(path.read_text() if path.exists() else None))
    return watcher, path, told


def test_a_change_counts_when_two_looks_agree_on_it(watched):
    watcher, path, told = watched
    watcher.look()
    path.write_text("other")
    watcher.look()
    assert told == []
    path.write_text("still being copied")
    watcher.look()
    assert told == []
    watcher.look()
    watcher.look()
    assert told == ["still being copied"]


def test_a_file_of_the_same_size_and_another_time_is_another_file(watched):
    watcher, path, told = watched
    path.write_text("two")
    os.utime(path, ns=(1, 1))
    watcher.look()
    watcher.look()
    assert told == ["two"]


def test_a_file_that_is_gone_and_comes_back_is_told_of(watched):
    watcher, path, told = watched
    path.unlink()
    watcher.look()
    watcher.look()
    path.write_text("back")
    watcher.look()
    watcher.look()
    assert told == [None, "back"]


def test_a_change_that_cannot_be_taken_over_does_not_end_the_watch(tmp_path, caplog):
    path = tmp_path / "file"
    watcher = Watcher(every_s=0.01)
    watcher.watch(lambda: [path], lambda: 1 / 0)
    watcher.start()
    for text in ("a", "bb"):
        path.write_text(text)
        until_s = time.monotonic() + 10
        while text == "a" and "could not be taken over" not in caplog.text and time.monotonic() < until_s:
            time.sleep(0.01)
    until_s = time.monotonic() + 10
    while caplog.text.count("could not be taken over") < 2 and time.monotonic() < until_s:
        time.sleep(0.01)
    watcher.stop()
    assert caplog.text.count("could not be taken over") == 2


def test_what_is_asked_for_happens_at_once_without_any_looking():
    watcher, done = Watcher(every_s=0), threading.Event()
    watcher.start()
    watcher.soon(done.set)
    assert done.wait(5)
    watcher.stop()
    assert "watching files" not in {thread.name for thread in threading.enumerate()}


def test_stopping_what_never_started_is_nothing():
    Watcher(1).stop()
