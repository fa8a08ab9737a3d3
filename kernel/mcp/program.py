"""A server that is a program on this machine: started, spoken with over its standard streams, and ended with its group.

The library's own transport trusts the program. This one doesn't: a line has a size, lines that are no messages have a
number, what it says on standard error goes to the log in bounded measure, and it doesn't outlive its worker.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from kernel.aio import to_the_end
from kernel.mcp.models import ServerConfig
from kernel.mcp.pace import Pace

logger = logging.getLogger(__name__)

GUARD = (sys.executable, "-I", "-S", str(Path(__file__).with_name("guard.py")))
# What a program needs to find its way; the studio's keys are none of its business.
INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")

MESSAGE_MAX_BYTES = 4 * 1024 * 1024
GARBAGE_MAX = 20  # lines in a row that are no messages: a greeting is forgiven, a flood isn't
SAID_MAX_LINES = 100
SAID_MAX_CHARS = 300
CHUNK_BYTES = 64 * 1024
PAUSE_S = 0.05  # between two looks at what nobody logs any more
GRACE_S = 0.5  # after each of: its input closed, SIGTERM, SIGKILL

Incoming = SessionMessage | Exception


class Program:
    """The transport of one program, as the library asks for it: a context manager of two streams.

    `on_end` is called when no more messages will come. `last_words` is the last thing it said outside the protocol.
    """

    def __init__(self, config: ServerConfig, on_end: Callable[[], None]):
        self._config = config
        self._on_end = on_end
        self._said = 0
        self.last_words = ""

    async def __aenter__(self) -> tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]:
        self._process = await self._started()
        self._arrived, incoming = anyio.create_memory_object_stream[Incoming](0)
        outgoing, self._leaving = anyio.create_memory_object_stream[SessionMessage](0)
        self._streams = (self._arrived, incoming, outgoing, self._leaving)
        name = self._config.name
        self._hearing = asyncio.create_task(self._hear(), name=f"mcp hears:{name}")
        self._talking = [
            asyncio.create_task(self._read(), name=f"mcp reads:{name}"),
            asyncio.create_task(self._write(), name=f"mcp writes:{name}"),
        ]
        return incoming, outgoing

    async def __aexit__(self, *_error: object) -> None:
        _, cancelled = await to_the_end(self._end())
        if cancelled:
            raise asyncio.CancelledError

    async def _started(self) -> asyncio.subprocess.Process:
        """Raises OSError."""
        environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
        starting = asyncio.create_subprocess_exec(
            *GUARD,
            str(os.getpid()),
            self._config.command,
            *self._config.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**environment, **dict(self._config.env)},
            limit=MESSAGE_MAX_BYTES,
            start_new_session=True,
        )
        # A cancel in the middle of the start would leave a process that nobody knows.
        process, cancelled = await to_the_end(starting)
        if cancelled:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            raise asyncio.CancelledError
        return process

    async def _read(self) -> None:
        """Messages, one a line, until the end of its output or of our patience."""
        assert self._process.stdout is not None  # a pipe
        garbage = 0
        pace = Pace()
        try:
            async for line in self._process.stdout:
                if wait_s := pace.wait_s(time.monotonic()):
                    await asyncio.sleep(wait_s)
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    garbage += 1
                    self._say(line)
                    if garbage > GARBAGE_MAX:
                        break
                else:
                    garbage = 0
                    await self._arrived.send(SessionMessage(message))
        except ValueError:
            self._say(b"(a line that is longer than any message may be)")
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass  # the session has left
        finally:
            self._ended()

    async def _write(self) -> None:
        assert self._process.stdin is not None  # a pipe
        try:
            async for each in self._leaving:
                line = each.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
                self._process.stdin.write(line.encode())
                await self._process.stdin.drain()
        except ConnectionError:
            self._ended()

    async def _hear(self) -> None:
        """Its standard error: read to the end, so that it never blocks, and logged up to a number of lines."""
        assert self._process.stderr is not None  # a pipe
        rest = b""
        while chunk := await self._process.stderr.read(CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[:CHUNK_BYTES]
            for line in lines[-SAID_MAX_LINES:]:
                self._say(line)
            if self._said > SAID_MAX_LINES:
                await asyncio.sleep(PAUSE_S)  # a flood must not keep the loop busy
        self._say(rest)

    def _say(self, line: bytes) -> None:
        """Log a line from outside the protocol, without what it was given in confidence."""
        words = self._config.without_secrets(line.decode("utf-8", "replace").strip())[:SAID_MAX_CHARS]
        if not words or words == self.last_words:
            return
        self.last_words = words
        self._said += 1
        if self._said <= SAID_MAX_LINES:
            extra = {"action": "mcp_said", "server": self._config.name}
            logger.info("The MCP server %s says: %s", self._config.name, words, extra=extra)

    def _ended(self) -> None:
        self._arrived.close()
        self._on_end()

    async def _end(self) -> None:
        """End it, first gently: no more input, then SIGTERM, then SIGKILL to whatever is left of the group."""
        assert self._process.stdin is not None  # a pipe
        self._process.stdin.close()
        exited = asyncio.create_task(self._process.wait(), name=f"mcp exit:{self._config.name}")
        gone = {exited, self._hearing}  # with its last words
        await asyncio.wait(gone, timeout=GRACE_S)
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):  # the group is empty
                os.killpg(self._process.pid, number)
                await asyncio.wait(gone, timeout=GRACE_S)
        for task in (*self._talking, *gone):
            task.cancel()
        await asyncio.wait({*self._talking, *gone}, timeout=GRACE_S)
        for stream in self._streams:
            stream.close()
        self._process._transport.close()  # type: ignore[attr-defined]  # no public way to let go of pipes a stray holds
