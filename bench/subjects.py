"""What can be measured: a subject opens clients, a client asks for a stream and can stop it or replace it."""

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from typing import Any

Token = tuple[float, float]  # when the provider sent it, when it reached the client


class Stream(ABC):
    """One answer on its way. `id` is its name at the provider; `asked_s` is the moment of asking."""

    id: str
    asked_s: float

    @abstractmethod
    def tokens(self) -> list[Token]:
        """What has arrived so far."""

    @abstractmethod
    async def began(self) -> None:
        """Wait for the first token."""

    @abstractmethod
    async def stop(self) -> float:
        """Order the stop; return the moment of the order."""

    @abstractmethod
    async def ended(self) -> None:
        """Wait until the client has been told the end."""


class Client(ABC):
    """One person at one connection. Orders are the provider's: `n`, `rate`, `hold`."""

    @abstractmethod
    async def ask(self, *, session: str | None = None, **orders: Any) -> Stream:
        """Ask for a stream, in a new session unless one is named."""

    @abstractmethod
    async def replace(self, stream: Stream, **orders: Any) -> tuple[float, str]:
        """End the stream for another one; return the moment of the order and the other one's id."""


class Subject(ABC):
    """`pid` is the process whose processor time and memory count."""

    name: str
    pid: int

    @abstractmethod
    def clients(self, count: int) -> AbstractAsyncContextManager[list[Client]]:
        """So many clients, for the time of an `async with`."""
