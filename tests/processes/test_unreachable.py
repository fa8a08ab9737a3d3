"""A provider that cannot be reached: stop ends the connecting too, and a refusal is told in words that help."""

import socket
from collections.abc import Iterator

import pytest

from tests.processes.conftest import StudioMaker
from tests.processes.ends import agreed_end, assert_stopped
from tests.processes.harness import Studio, free_port
from tests.provider_script import directive

pytestmark = pytest.mark.processes


class DeadEnd:
    """An address that refuses connections, or, when `swallow` is called, lets them hang in connecting."""

    def __init__(self) -> None:
        self.port = free_port()
        self._sockets: list[socket.socket] = []

    def swallow(self) -> None:
        """Listen with a backlog that is full already: the kernel ignores every further attempt."""
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", self.port))
        server.listen(0)
        self._sockets.append(server)
        for _ in range(3):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", self.port))
            self._sockets.append(filler)

    def refuse(self) -> None:
        for each in self._sockets:
            each.close()
        self._sockets.clear()


@pytest.fixture(scope="module")
def dead_end() -> Iterator[DeadEnd]:
    dead_end = DeadEnd()
    yield dead_end
    dead_end.refuse()


@pytest.fixture(scope="module")
def lonely(make_studio: StudioMaker, dead_end: DeadEnd) -> Studio:
    return make_studio(provider_url=f"http://127.0.0.1:{dead_end.port}/v1")


async def test_a_refused_connection_is_an_error_that_says_what_to_do(
    lonely: Studio, dead_end: DeadEnd, key: str
) -> None:
    dead_end.refuse()
    async with await lonely.connect("ann") as ann:
        reply = await ann.send(key, directive(id=key))
        result = await agreed_end(lonely, ann, reply["executionId"])
    assert (result["status"], result.get("abortReason")) == ("error", None)
    assert len(result["error"]) > 20


async def test_stop_ends_a_run_that_is_still_connecting(lonely: Studio, dead_end: DeadEnd, key: str) -> None:
    dead_end.refuse()
    dead_end.swallow()
    async with await lonely.connect("ann") as ann:
        reply = await ann.send(key, directive(id=key))
        await ann.wait_phase(reply["executionId"], "waiting")
        assert_stopped(await ann.stop(key))
        result = await agreed_end(lonely, ann, reply["executionId"])
        assert (result["status"], result["abortReason"]) == ("aborted", "session_stop")
        assert (await ann.send(key, directive(id=key)))["queued"] is False
        assert_stopped(await ann.stop(key))
