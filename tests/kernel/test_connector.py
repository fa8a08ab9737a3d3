"""aiohttp's connections are booked when made and when reused, and closing the book closes the socket in every phase."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from kernel.connections import Book, booked
from kernel.llm.connector import BookingConnector
from tests.fakes import Gate
from tests.waiting import READY_TIMEOUT_S

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"


class Server:
    """Answers `/silent` never, `/head` with headers, `/half` with half a body, anything else whole.

    `reached` is set when a request has been answered so far, `gone` when its connection is closed.
    """

    def __init__(self) -> None:
        self.connections = 0
        self.requests = 0
        self.reached = asyncio.Event()
        self.gone = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while line := await reader.readline():
                while await reader.readline() not in (b"\r\n", b""):
                    pass
                self.requests += 1
                path = line.split()[1]
                writer.write({b"/silent": b"", b"/head": HEAD, b"/half": HEAD + b"ab"}.get(path, HEAD + b"abcd"))
                self.reached.set()
        except ConnectionError:
            pass  # that is how a closed book looks from here
        finally:
            writer.close()
            self.gone.set()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    async with await asyncio.start_server(server, "127.0.0.1", 0) as listening:
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield server


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=BookingConnector()) as session:
        yield session


async def fetch(http: aiohttp.ClientSession, url: str, book: Book | None) -> bytes:
    if book is None:
        async with http.get(url) as response:
            return await response.read()
    with booked(book):
        return await fetch(http, url, None)


@pytest.mark.parametrize("path", ["/silent", "/head", "/half"])
async def test_closing_the_book_closes_the_connection_in_every_phase(
    path: str, server: Server, http: aiohttp.ClientSession
) -> None:
    book = Book()
    fetching = asyncio.create_task(fetch(http, server.url + path, book))
    async with asyncio.timeout(READY_TIMEOUT_S):
        await server.reached.wait()
        assert book.open == 1
        assert book.close() == 1
        await server.gone.wait()
        with pytest.raises(aiohttp.ClientError):
            await fetching
    assert book.open == 0


async def test_closing_the_book_while_it_connects_closes_what_is_made(server: Server) -> None:
    gate, book = Gate(), Book()

    class Resolver(AbstractResolver):
        async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
            await gate.wait()
            found = {"hostname": host, "host": "127.0.0.1", "port": port, "family": 2, "proto": 6, "flags": 4}
            return [ResolveResult(**found)]

        async def close(self) -> None:
            pass

    url = server.url.replace("127.0.0.1", "somewhere.test")
    async with aiohttp.ClientSession(connector=BookingConnector(resolver=Resolver())) as http:
        fetching = asyncio.create_task(fetch(http, url, book))
        async with asyncio.timeout(READY_TIMEOUT_S):
            await gate.reached.wait()
            assert book.close() == 0, "there is nothing yet"
            gate.open()
            with pytest.raises(aiohttp.ClientConnectionError, match="while it was connecting"):
                await fetching
            await server.gone.wait()
    assert (server.connections, server.requests) == (1, 0)


async def test_a_connection_that_is_kept_alive_is_booked_anew_for_each_execution(
    server: Server, http: aiohttp.ClientSession
) -> None:
    first, second = Book(), Book()
    assert await fetch(http, server.url + "/whole", first) == b"abcd"
    assert first.open == 0, "the answer is whole, so the connection is not this execution's any more"
    server.reached.clear()
    fetching = asyncio.create_task(fetch(http, server.url + "/silent", second))
    async with asyncio.timeout(READY_TIMEOUT_S):
        await server.reached.wait()
        assert server.connections == 1
        assert (first.open, second.open) == (0, 1)
        assert first.close() == 0
        assert not server.gone.is_set(), "the first execution's end does not touch the second"
        second.close()
        await server.gone.wait()
        with pytest.raises(aiohttp.ClientError):
            await fetching


async def test_a_closed_book_asks_no_provider_again(server: Server, http: aiohttp.ClientSession) -> None:
    book = Book()
    book.close()
    with pytest.raises(aiohttp.ClientConnectionError, match="was aborted"):
        await fetch(http, server.url + "/whole", book)
    assert server.connections == 0


async def test_without_a_book_it_is_an_ordinary_connector(server: Server, http: aiohttp.ClientSession) -> None:
    assert await fetch(http, server.url + "/whole", None) == b"abcd"
