"""Bad frames: each is answered by its error frame, the socket lives, the log has no traceback, runs are unharmed."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.client import Frame, StudioClient
from tests.processes.ends import agreed_end
from tests.processes.harness import Studio
from tests.provider import Provider
from tests.provider_script import directive

pytestmark = pytest.mark.processes

KEY = "a-session"
BAD_JSON = ("bad_json",)
NOT_A_FRAME = ("bad_json", "bad_frame", "unknown_type")  # the contract does not say which of them it is
BAD_FRAME = ("bad_frame",)


def frame(type_: str, **fields: Any) -> str:
    return json.dumps({"type": f"studio_chat_{type_}", **fields})


BAD_FRAMES: list[tuple[str | bytes, tuple[str, ...]]] = [
    ("", NOT_A_FRAME),
    ("not json", BAD_JSON),
    ('{"type": "studio_chat_ping"', BAD_JSON),
    ('{"type": "studio_chat_ping"} {}', BAD_JSON),
    ("[" * 100_000, NOT_A_FRAME),
    ('{"a":' * 50_000 + "1" + "}" * 50_000, NOT_A_FRAME),
    (f'{{"type": "studio_chat_ping", "requestId": {"9" * 5000}}}', NOT_A_FRAME),
    (b"\x00\xff binary", NOT_A_FRAME),
    (b'{"type": "studio_chat_ping"}', NOT_A_FRAME),
    ("null", NOT_A_FRAME),
    ("42", NOT_A_FRAME),
    ('"studio_chat_ping"', NOT_A_FRAME),
    ('[{"type": "studio_chat_ping"}]', NOT_A_FRAME),
    ("{}", NOT_A_FRAME),
    ('{"type": null}', NOT_A_FRAME),
    ('{"type": ["studio_chat_ping"]}', NOT_A_FRAME),
    ('{"type": {"studio_chat_ping": 1}}', NOT_A_FRAME),
    (frame("no_such_thing"), ("unknown_type",)),
    (frame("ping_ok"), ("unknown_type",)),
    (frame("delta", sessionKey=KEY), ("unknown_type",)),
    ('{"type": "__class__"}', ("unknown_type",)),
    (frame("ping", requestId=7), BAD_FRAME),
    (frame("ping", requestId="r" * 129), BAD_FRAME),
    (frame("ping", requestId="\x00"), BAD_FRAME),
    (frame("stop_session"), BAD_FRAME),
    (frame("stop_session", sessionKey=None), BAD_FRAME),
    (frame("stop_session", sessionKey=5), BAD_FRAME),
    (frame("stop_session", sessionKey=""), BAD_FRAME),
    (frame("stop_session", sessionKey="k" * 65), BAD_FRAME),
    (frame("stop_session", sessionKey="no spaces"), BAD_FRAME),
    (frame("stop_session", sessionKey="../../etc/passwd"), BAD_FRAME),
    (frame("stop_session", sessionKey="line\n"), BAD_FRAME),
    (frame("stop_session", sessionKey="ключ"), BAD_FRAME),
    (frame("stop_session", sessionKey=KEY, executionId=1), BAD_FRAME),
    (frame("panic", hold="yes"), BAD_FRAME),
    (frame("panic", scope="everything"), BAD_FRAME),
    (frame("send", sessionKey=KEY), BAD_FRAME),
    (frame("send", text="hello"), BAD_FRAME),
    (frame("send", sessionKey=KEY, text=7), BAD_FRAME),
    (frame("send", sessionKey=KEY, text=["hello"]), BAD_FRAME),
    (frame("send", sessionKey=KEY, text="a\x00b"), BAD_FRAME),
    (frame("send", sessionKey=KEY, text="a\ud800b"), BAD_FRAME),
    (frame("send", sessionKey=KEY, text="hello", context={"title": "\udfff"}), BAD_FRAME),
    (frame("send", sessionKey=KEY, text="hello", context="page"), BAD_FRAME),
    (frame("send", sessionKey=KEY, text="hello", whenBusy="panic"), BAD_FRAME),
    (frame("send", sessionKey=KEY, text="hello", interrupted="perhaps"), BAD_FRAME),
    (frame("send", sessionKey=KEY, text="hello", clientMessageId={}), BAD_FRAME),
    (frame("subscribe"), BAD_FRAME),
    (frame("subscribe", sessionKey=KEY, limit="many"), BAD_FRAME),
    (frame("subscribe", sessionKey=KEY, limit=-1), BAD_FRAME),
    (frame("session_rename", sessionKey=KEY), BAD_FRAME),
    (frame("session_rename", sessionKey=KEY, title=None), BAD_FRAME),
]
TOO_LARGE = frame("send", sessionKey=KEY, text="x" * (513 * 1024))
SOCKETS = 20
FRAMES_A_SOCKET = 100


@pytest.mark.parametrize("number", range(len(BAD_FRAMES)))
async def test_a_bad_frame_is_answered_and_the_socket_lives(number: int, studio: Studio, ann: StudioClient) -> None:
    data, codes = BAD_FRAMES[number]
    await ann.send_raw(data)
    answer = await ann.wait(is_error)
    assert_error(answer, codes)
    assert (await ann.ping())["ok"]


async def test_an_error_frame_carries_the_request_it_answers(studio: Studio, ann: StudioClient) -> None:
    answer = await ann.call("studio_chat_stop_session", requestId="mine")
    assert (answer["type"], answer["requestId"]) == ("studio_chat_error", "mine")
    answer = await ann.call("studio_chat_no_such_thing", requestId="mine-too")
    assert (answer["code"], answer["requestId"]) == ("unknown_type", "mine-too")


@pytest.mark.parametrize("kib", [513, 1025, 4000])
async def test_a_frame_beyond_the_limit_is_refused_and_the_socket_lives(
    kib: int, studio: Studio, ann: StudioClient
) -> None:
    await ann.send_raw(frame("send", sessionKey=KEY, text="x" * (kib * 1024)))
    assert_error(await ann.wait(is_error), ("too_large",))
    assert (await ann.ping())["ok"]


async def test_a_frame_far_beyond_the_limit_closes_the_socket_as_too_big(studio: Studio) -> None:
    async with await studio.connect("ann") as client:
        with suppress(ConnectionClosed):  # it may be closed before all of it is sent
            await client.send_raw("x" * (4 * 1024 * 1024 + 1))
        assert await client.closed() == 1009


async def test_a_text_beyond_its_limit_is_refused_and_makes_no_session(
    studio: Studio, ann: StudioClient, key: str
) -> None:
    for text in ("x" * (64 * 1024 + 1), "ж" * (32 * 1024 + 1)):
        reply = await ann.call("studio_chat_send", sessionKey=key, text=text)
        assert (reply["type"], reply["ok"], reply["code"]) == ("studio_chat_send_ok", False, "invalid")
    assert studio.rows("SELECT * FROM chat_chatsession WHERE key = ?", key) == []


async def test_a_text_at_its_limit_is_sent(studio: Studio, ann: StudioClient, provider: Provider, key: str) -> None:
    orders = directive(id=key)
    reply = await ann.send(key, orders + "x" * (64 * 1024 - len(orders)))
    assert (await agreed_end(studio, ann, reply["executionId"]))["status"] == "completed"


async def test_two_thousand_bad_frames_on_twenty_sockets_leave_a_running_turn_unharmed(
    studio: Studio, ann: StudioClient, provider: Provider, key: str
) -> None:
    reply = await ann.send(key, directive(id=key, n=60, rate=20))
    await provider.wait_deltas(key, 1)
    clients = await asyncio.gather(*(studio.connect("ann") for _ in range(SOCKETS)))
    try:
        await asyncio.gather(*(_bombard(client, number) for number, client in enumerate(clients)))
    finally:
        await asyncio.gather(*(client.close() for client in clients))
    result = await agreed_end(studio, ann, reply["executionId"])
    assert (result["status"], result["text"]) == ("completed", provider.of(key)[0].text)


async def _bombard(client: StudioClient, number: int) -> None:
    sent = [BAD_FRAMES[(number + index) % len(BAD_FRAMES)] for index in range(FRAMES_A_SOCKET - 1)]
    for data, _ in sent:
        await client.send_raw(data)
    await client.send_raw(TOO_LARGE)
    assert (await client.ping())["ok"]
    errors = [frame for frame in client.frames if is_error(frame)]
    assert len(errors) == FRAMES_A_SOCKET
    for error, (_, codes) in zip(errors, [*sent, (TOO_LARGE, ("too_large",))], strict=True):
        assert_error(error, codes)


async def test_a_stranger_is_let_in_and_closed_as_not_logged_in(studio: Studio) -> None:
    client = await StudioClient.connect(studio.base_url, {})
    assert await client.closed() == 4401
    await client.close()


async def test_a_foreign_origin_is_refused_at_the_handshake(studio: Studio) -> None:
    cookies = await studio.cookies("ann")
    for origin in ("http://evil.example", studio.base_url.replace("http", "https"), "null"):
        with pytest.raises(InvalidStatus):
            await StudioClient.connect(studio.base_url, cookies, origin=origin)


def is_error(answer: Frame) -> bool:
    return answer["type"] == "studio_chat_error"


def assert_error(answer: Frame, codes: tuple[str, ...]) -> None:
    assert answer["ok"] is False
    assert answer["code"] in codes, answer
    assert answer["error"]
    assert "requestId" in answer
    assert answer["timestamp"] > 1_600_000_000_000
