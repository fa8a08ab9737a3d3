"""aiohttp's connector, booking each connection on the execution that asked for it (see kernel.connections)."""

import aiohttp
from aiohttp import ClientRequest, ClientTimeout
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

from kernel.connections import CURRENT


class BookingConnector(aiohttp.TCPConnector):
    """A TCP connector that books each connection, new or reused, on the current context's book."""

    async def connect(self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout) -> Connection:
        book = CURRENT.get()
        if book is not None and book.closed:
            raise aiohttp.ClientConnectionError("The execution was aborted; it asks no provider again.")
        connection = await super().connect(req, traces, timeout)
        if book is None:
            return connection
        book.add(connection)
        if book.closed:  # closed while the connection was being made
            book.close()
            connection.close()
            raise aiohttp.ClientConnectionError("The execution was aborted while it was connecting.")
        return connection
