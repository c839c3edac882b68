"""Head and body of an answer leave together."""

import asyncio

import pytest

from serving.connection import JoiningTransport


class Written:
    def __init__(self):
        self.parts, self.closed = [], False

    def write(self, data):
        self.parts.append(data)

    def close(self):
        self.closed = True

    def get_write_buffer_size(self):
        return 0


@pytest.fixture
def written():
    return Written()


def in_a_loop(act):
    async def run():
        act(asyncio.get_running_loop())
        await asyncio.sleep(0)

    asyncio.run(run())


def test_two_writes_of_one_round_are_one(written):
    def act(loop):
        transport = JoiningTransport(written, loop)
        transport.write(b"head")
        transport.write(b"body")
        assert written.parts == [b"headbody"]

    in_a_loop(act)
    assert written.parts == [b"headbody"]


def test_a_head_alone_waits_no_longer_than_a_round(written):
    """A stream may have nothing to say for long."""

    def act(loop):
        transport = JoiningTransport(written, loop)
        transport.write(b"head")
        assert written.parts == []
        assert transport.get_write_buffer_size() == 4

    in_a_loop(act)
    assert written.parts == [b"head"]


def test_nothing_is_lost_when_it_is_closed(written):
    def act(loop):
        transport = JoiningTransport(written, loop)
        transport.write(b"head")
        transport.close()

    in_a_loop(act)
    assert (written.parts, written.closed) == ([b"head"], True)
