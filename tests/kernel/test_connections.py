"""The book of an execution's connections: closed whole, counted truly, refusing what comes later."""

import asyncio
import gc
import weakref
from collections.abc import Callable

import pytest

from kernel.connections import CURRENT, Book, booked


class Transport:
    def __init__(self) -> None:
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted


class Connection:
    """A connection as aiohttp's: without a transport once it is released, telling its callbacks of it."""

    def __init__(self) -> None:
        self.transport: Transport | None = Transport()
        self._callbacks: list[Callable[[], None]] = []

    def add_callback(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def release(self) -> None:
        self.transport = None
        for callback in self._callbacks:
            callback()


@pytest.fixture
def book() -> Book:
    return Book()


def test_closing_aborts_every_open_transport_and_says_how_many(book: Book) -> None:
    connections = [Connection(), Connection(), Connection()]
    for connection in connections:
        book.add(connection)
    connections[0].transport.aborted = True
    assert book.open == 2
    assert book.close() == 2
    assert all(connection.transport.aborted for connection in connections)
    assert book.open == 0
    assert book.close() == 0


def test_a_released_connection_is_not_ours_to_close(book: Book) -> None:
    connection = Connection()
    book.add(connection)
    transport = connection.transport
    connection.release()
    assert (book.open, book.close()) == (0, 0)
    assert not transport.aborted


def test_a_released_connection_is_forgotten(book: Book) -> None:
    connection = Connection()
    book.add(connection)
    connection.release()
    remembered = weakref.ref(connection)
    del connection
    gc.collect()
    assert remembered() is None


def test_a_connection_without_a_transport_counts_as_closed(book: Book) -> None:
    connection = Connection()
    book.add(connection)
    connection.transport = None
    assert (book.open, book.close()) == (0, 0)


def test_a_closed_book_says_so(book: Book) -> None:
    assert not book.closed
    book.close()
    assert book.closed


async def test_a_book_is_current_in_its_context_and_in_the_tasks_begun_there(book: Book) -> None:
    async def current() -> Book | None:
        return CURRENT.get()

    with booked(book):
        inside = asyncio.create_task(current())
    outside = asyncio.create_task(current())
    assert await inside is book
    assert await outside is None


def test_the_book_before_is_current_again_afterwards_also_after_an_error(book: Book) -> None:
    with booked(book):
        with pytest.raises(RuntimeError), booked(Book()):
            raise RuntimeError
        assert CURRENT.get() is book
    assert CURRENT.get() is None
