"""The small real model that runs on this machine, without key or network, as a `Model`.

It runs in a process of its own (`kernel.llm.local_server`): started on first use, stopped when nobody has used it for
`IDLE_S`, started again if it died, and never outliving this one. Closing a stream frees the model for the next. The
model knows no tools, and its context is small: `fit` says what it is shown of a conversation.
"""

import asyncio
import atexit
import json
import logging
import string
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from kernel.llm.litellm_model import LitellmModel
from kernel.llm.local_server import SLOT_TOKENS, model_file
from kernel.llm.model import ModelError, ModelEvent, ModelRequest

logger = logging.getLogger(__name__)

NAME = "local/smollm2"
LABEL = "SmolLM2 135M (small, on this machine)"

IDLE_S = 300.0
# A connection breaks a moment before the process behind it can be seen to have ended.
EXIT_S = 0.5
OUTPUT_TOKENS = 1024
# A quarter of the context stays free, because tokens are estimated here and counted there. It also bounds the wait for
# the first word: one thread reads about 140 tokens a second.
INPUT_TOKENS = SLOT_TOKENS // 2

# The server notices a closed connection when it writes. So it tells of its progress after each batch of a prompt; else
# it would look once a second only, and a stopped answer would hold its slot for so long.
PROGRESS = {"return_progress": True}

MESSAGE_TOKENS = 8
LETTERS = (string.ascii_letters + " ").encode()
ASCII = bytes(range(128))
GAP = "\n[…]\n"

PROJECT_ROOT = Path(__file__).resolve().parents[2]
SERVER = (sys.executable, "-m", "kernel.llm.local_server")

NOT_INSTALLED = "The local model is not installed. Run `make install`, or choose another model."
NOT_STARTED = (
    "The local model did not start (exit code {code}; the server's log says why). Send again, or choose another model."
)
DIED = "The local model's process ended (exit code {code}). What had arrived is kept. Send again: it starts anew."


def local_model_installed() -> bool:
    """Whether the local model's two packages are here. Imports neither."""
    return find_spec("xllamacpp") is not None and model_file() is not None


class LocalModel:
    """A `Model`, answered by the one server that this process shares among all its streams."""

    def __init__(self, *, server: "LocalServer | None" = None, fast: bool = True):
        self._server = server or shared_server
        self._fast = fast

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield deltas as they arrive, then one `Finished`. Raises `ModelError`."""
        if not local_model_installed():
            raise ModelError(NOT_INSTALLED, status=404)
        async with self._server.use() as address:
            model = LitellmModel(
                name="openai/smollm2",
                api_base=f"{address.url}/v1",
                api_key=address.api_key,
                extra_body=PROGRESS,
                fast=self._fast,
            )
            async with aclosing(model.stream(_fitted(request))) as events:
                async for event in events:
                    yield event


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Where the server listens, and the key that only this process knows."""

    url: str
    api_key: str


class LocalServer:
    """The child process: at most one, started and stopped under one lock. Lives on one event loop."""

    def __init__(self, *, command: Sequence[str] = SERVER, idle_s: float = IDLE_S):
        self._command = command
        self._idle_s = idle_s
        self._lock = asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._address: Address | None = None
        self._users = 0
        self._idle_timer: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """The child's process id, or None while there is none."""
        return self._process.pid if self._process else None

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Address]:
        """The running server, started if need be, and kept while it is used.

        Raises `ModelError` if it does not start; one from inside is replaced where the child's end is behind it.
        """
        self._users += 1
        self._stay()
        try:
            async with self._lock:
                process, address = await self._running()
            try:
                yield address
            except ModelError as error:
                raise await _explained(error, process) from error
        finally:
            self._users -= 1
            if not self._users:
                self._idle_timer = asyncio.get_running_loop().call_later(self._idle_s, self.stop)

    def stop(self) -> None:
        """End the child, if there is one. The next use starts another."""
        self._stay()
        process, self._process, self._address = self._process, None, None
        if process:
            _end(process)

    def _stay(self) -> None:
        if self._idle_timer:
            self._idle_timer.cancel()
            self._idle_timer = None

    async def _running(self) -> "tuple[subprocess.Popen[bytes], Address]":
        if self._process and self._address and self._process.poll() is None:
            return self._process, self._address
        if self._process:
            logger.warning("The local model had ended; another is started.", extra={"action": "local_restart"})
        self.stop()
        self._process = _start(self._command)
        try:
            self._address = await _address(self._process)
        except BaseException:  # also a cancel: nothing goes on loading for a run that was stopped
            self.stop()
            raise
        logger.info("The local model is ready.", extra={"action": "local_start"})
        return self._process, self._address


def _start(command: Sequence[str]) -> "subprocess.Popen[bytes]":
    # A session of its own, so that a Ctrl-C in the terminal is for the parent to handle. Standard input is the child's
    # life line: the kernel closes it when this process ends, however it ends.
    return subprocess.Popen(  # noqa: S603  the command is ours
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=PROJECT_ROOT, start_new_session=True
    )


async def _address(process: "subprocess.Popen[bytes]") -> Address:
    """What the child announces once it is ready, or `ModelError` if it ends without."""
    assert process.stdout is not None  # it is a pipe
    line = await _first_line(process.stdout)
    if not line:
        raise ModelError(NOT_STARTED.format(code=process.wait()), retryable=True)
    return Address(**json.loads(line))


async def _first_line(pipe: IO[bytes]) -> bytes:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        return await reader.readline()
    finally:
        transport.close()


async def _explained(error: ModelError, process: "subprocess.Popen[bytes]") -> ModelError:
    """`error`, or, if the process has ended or is just ending, an error that says so."""
    if not error.retryable:
        return error
    try:
        code = await asyncio.to_thread(process.wait, EXIT_S)
    except subprocess.TimeoutExpired:
        return error
    return ModelError(DIED.format(code=code), retryable=True)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            pipe.close()
    process.wait()


shared_server = LocalServer()
atexit.register(shared_server.stop)


def _fitted(request: ModelRequest) -> ModelRequest:
    output = min(request.max_output_tokens or OUTPUT_TOKENS, OUTPUT_TOKENS)
    return replace(request, messages=fit(request.messages, INPUT_TOKENS), tools=[], max_output_tokens=output)


def fit(messages: list[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    """What of `messages` goes into `limit` tokens, in order.

    Tool calls and their results are left out. The system prompt and the newest message always stay, each without its
    middle if it alone is longer than half of `limit`; then the others, newest first, until one does not fit.
    """
    plain = [
        {"role": message["role"], "content": text}
        for message in messages
        if message["role"] != "tool" and (text := _text(message))
    ]
    system = [_shortened(message, limit // 2) for message in plain if message["role"] == "system"][:1]
    others = [message for message in plain if message["role"] != "system"]
    newest = [_shortened(message, limit // 2) for message in others[-1:]]
    left = limit - sum(estimated_tokens(message["content"]) for message in system + newest)
    kept: list[dict[str, Any]] = []
    for message in reversed(others[:-1]):
        left -= estimated_tokens(message["content"])
        if left < 0:
            break
        kept.insert(0, message)
    return system + kept + newest


def estimated_tokens(text: str) -> int:
    """About how many tokens `text` is, rather too many: this tokenizer knows English words, and little else."""
    encoded = text.encode("utf-8", "replace")
    beyond_ascii = len(encoded.translate(None, ASCII))
    letters = len(encoded) - len(encoded.translate(None, LETTERS))
    return MESSAGE_TOKENS + letters // 3 + (len(encoded) - letters - beyond_ascii) + beyond_ascii * 2 // 3


def _shortened(message: dict[str, Any], limit: int) -> dict[str, Any]:
    """`message` without its middle, if it is longer than `limit` tokens."""
    whole = text = message["content"]
    side = len(whole)
    while (estimate := estimated_tokens(text)) > limit and side:
        side = min(side // 2, side * limit // estimate)
        text = whole[:side] + GAP + whole[len(whole) - side :]
    return {**message, "content": text}


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
