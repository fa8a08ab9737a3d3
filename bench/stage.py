"""What all scenarios of one worker share: the stage, how much is measured, and how streams are begun and ended."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from bench.product import Product
from bench.subjects import Client, Stream, Subject
from bench.upstream import Upstream

RATE = 20  # tokens a second, of each stream
FOREVER = 1_000_000
LEFT_OPEN_S = 5.0
MS = 1000.0
STARTING = 25  # streams that are asked for at once


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is measured."""

    repeats: int = 50  # stops of one run
    turns: int = 30  # of one person, in the other scenarios
    rounds: int = 3  # of what many do at once
    window_s: float = 6.0  # of load
    together: tuple[int, ...] = (50, 100, 500)  # runs that are stopped at once
    loads: tuple[int, ...] = (20, 100, 500)  # streams
    compared: int = 100  # streams at most, of what the studio is compared with
    sizes: tuple[int, ...] = (50, 5_000, 50_000)  # messages in a session
    idle: tuple[int, int] = (1000, 200)  # sockets that do nothing, beside so many runs

    @classmethod
    def quick(cls) -> "Scale":
        return cls(
            repeats=12,
            turns=12,
            rounds=1,
            window_s=3.0,
            together=(50,),
            loads=(50,),
            sizes=(50, 5_000),
            idle=(200, 50),
        )


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Everything that runs: the product, what it is compared with, and the provider behind them all.

    `slow` is the product with its fast lane closed; `peers` are other products, where they were asked for.
    """

    upstream: Upstream
    product: Product
    slow: Product
    floor: Subject
    litellm: Subject
    scale: Scale
    peers: Sequence[Subject] = ()

    def compared(self, count: int, *others: Subject) -> list[Subject]:
        """Who is measured with so many streams, the product last: beyond `scale.compared` it has only its floor."""
        return [self.floor, *((*others, *self.peers) if count <= self.scale.compared else ()), self.product]


async def streaming(stage: Stage, clients: list[Client]) -> list[Stream]:
    """One endless stream for each client. All have begun before they flow: a start is not what is measured here."""
    streams: list[Stream] = []
    for first in range(0, len(clients), STARTING):
        asked = (client.ask(n=FOREVER, rate=RATE, hold=1) for client in clients[first : first + STARTING])
        streams += await asyncio.gather(*asked)
    await asyncio.gather(*(stream.began() for stream in streams))
    stage.upstream.release()
    return streams


async def stop_all(streams: list[Stream]) -> None:
    await asyncio.gather(*(stream.stop() for stream in streams))
    await asyncio.gather(*(stream.ended() for stream in streams))
