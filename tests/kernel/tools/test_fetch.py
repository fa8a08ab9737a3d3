"""Getting a page: only what is public, at every redirect, by the very address that was judged; capped and closed."""

import asyncio
import gzip
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from kernel.connections import Book, booked
from kernel.tools.builtin import fetch as fetching
from kernel.tools.builtin.fetch import FetchError, Page, Rules, fetch
from tests.kernel.tools.web_server import WebServer, serving
from tests.waiting import READY_TIMEOUT_S, eventually


@pytest.fixture
async def web_server() -> AsyncIterator[WebServer]:
    async with serving() as server:
        yield server


async def get(server: WebServer, path: str = "/", **rules: Any) -> Page:
    async with asyncio.timeout(READY_TIMEOUT_S):
        return await fetch(f"{server.url}{path}", replace(server.rules, **rules))


async def test_a_page_is_had_as_it_was_sent(web_server: WebServer) -> None:
    web_server.says("/", "<p>olá</p>", charset="utf-8")
    page = await get(web_server)
    assert (page.content_type, page.charset, page.body, page.cut) == (
        "text/html",
        "utf-8",
        "<p>olá</p>".encode(),
        False,
    )
    assert page.url == f"{web_server.url}/"


async def test_who_asks_says_so_and_brings_nothing_along(web_server: WebServer) -> None:
    web_server.says("/", headers={"Set-Cookie": "a=1"})
    web_server.leads("/first", "/")
    await get(web_server)
    await get(web_server, "/first")
    for request in web_server.requests:
        assert "read_web_page" in request.headers["User-Agent"]
        assert not {"Cookie", "Authorization", "Referer"} & set(request.headers)


# Where it goes


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://0x7f.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0177.0.0.1/",
        "http://0/",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fe80::1%25lo]/",
    ],
)
async def test_what_is_not_public_is_refused_before_any_connection(url: str) -> None:
    async with asyncio.timeout(READY_TIMEOUT_S):
        with pytest.raises(FetchError):
            await fetch(url, Rules())


async def test_a_server_on_this_machine_is_never_reached_by_the_usual_rules(web_server: WebServer) -> None:
    ports = frozenset({web_server.port})
    for host in ("127.0.0.1", "localhost", "0x7f.1", "2130706433"):
        with pytest.raises(FetchError, match=r"not public|no address"):
            await fetch(f"http://{host}:{web_server.port}/", Rules(ports=ports))
    assert web_server.requests == []


@pytest.mark.parametrize(
    "url",
    [
        "ftp://page.test/",
        "file:///etc/passwd",
        "gopher://page.test/",
        "page.test",
        "//page.test/",
        "http://",
        "http:///path",
        "javascript:alert(1)",
        "",
        "http://user@page.test/",
        "http://user:secret@page.test/",
        "http://page.test:22/",
        "http://page.test:99999/",
        "http://page.test:port/",
        "http://[::1",
    ],
)
async def test_an_address_of_another_kind_is_refused(url: str, web_server: WebServer) -> None:
    with pytest.raises(FetchError) as refused:
        await fetch(url, web_server.rules)
    assert "secret" not in refused.value.message
    assert web_server.looked_up == []


async def test_a_redirect_is_followed_and_the_last_address_told(web_server: WebServer) -> None:
    web_server.leads("/a", "b?x=1#part", status=301)
    web_server.leads("/b", f"{web_server.url}/c", status=308)
    web_server.says("/c", "here")
    page = await get(web_server, "/a")
    assert (page.body, page.url) == (b"here", f"{web_server.url}/c")


@pytest.mark.parametrize(
    ("to", "why"),
    [
        ("http://127.0.0.2:{port}/", "not public"),
        ("http://inside.test:{port}/", "not public"),
        ("http://[::1]:{port}/", "not public"),
        ("http://169.254.169.254:{port}/", "not public"),
        ("http://page.test:22/", "Port 22"),
        ("file:///etc/passwd", "Only http"),
        ("http://user:secret@page.test:{port}/", "a password"),
        ("", "Only http|no address|leads"),
    ],
)
async def test_a_redirect_is_judged_like_any_address(to: str, why: str, web_server: WebServer) -> None:
    web_server.names["inside.test"] = "10.0.0.1"
    web_server.leads("/", to.format(port=web_server.port))
    with pytest.raises(FetchError, match=why):
        await get(web_server)


async def test_a_page_that_leads_on_and_on_is_given_up(web_server: WebServer) -> None:
    web_server.leads("/", "/")
    with pytest.raises(FetchError, match="more than 5 times"):
        await get(web_server)
    assert len(web_server.requests) == 6


async def test_a_name_is_looked_up_once_for_each_request_and_that_address_is_judged_and_taken(
    web_server: WebServer,
) -> None:
    """A name that is public when it is judged and private when it is connected to: there are no two look-ups."""
    web_server.says("/", "here")
    await get(web_server)
    assert web_server.looked_up == ["page.test"]

    web_server.names["page.test"] = "10.0.0.1"
    with pytest.raises(FetchError, match="not public"):
        await get(web_server)
    assert web_server.looked_up == ["page.test"] * 2


async def test_a_proxy_of_the_environment_is_not_asked(web_server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    web_server.says("/", "here")
    assert (await get(web_server)).body == b"here"


# What it takes


async def test_an_unknown_name_is_told(web_server: WebServer) -> None:
    with pytest.raises(FetchError, match=r"no way to nowhere\.test"):
        await fetch(f"http://nowhere.test:{web_server.port}/", web_server.rules)


@pytest.mark.parametrize("status", [204, 403, 404, 500])
async def test_a_status_that_is_no_page_is_told(status: int, web_server: WebServer) -> None:
    web_server.says("/", status=status)
    with pytest.raises(FetchError, match=f"status {status}"):
        await get(web_server)


@pytest.mark.parametrize(
    "kind", ["text/html", "text/plain", "application/json", "application/ld+json", "application/atom+xml", "text/xml"]
)
async def test_text_is_taken(kind: str, web_server: WebServer) -> None:
    web_server.says("/", "here", content_type=kind)
    assert (await get(web_server)).content_type == kind


@pytest.mark.parametrize("kind", ["image/png", "application/pdf", "application/octet-stream", "text/css", "video/mp4"])
async def test_what_is_no_text_is_not_taken(kind: str, web_server: WebServer) -> None:
    web_server.says("/", "here", content_type=kind)
    with pytest.raises(FetchError, match="Only text"):
        await get(web_server)


async def test_an_encoding_that_was_not_asked_for_is_not_taken(web_server: WebServer) -> None:
    web_server.says("/", b"x", headers={"Content-Encoding": "br"})
    with pytest.raises(FetchError, match="compressed"):
        await get(web_server)


async def test_a_compressed_page_comes_as_it_was_sent(web_server: WebServer) -> None:
    web_server.says("/", gzip.compress(b"here"), headers={"Content-Encoding": "gzip"})
    page = await get(web_server)
    assert (page.encoding, gzip.decompress(page.body)) == ("gzip", b"here")


async def test_a_page_without_end_is_cut_and_its_connection_closed(
    web_server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "BODY_MAX_BYTES", 100_000)
    hung_up = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await answer.prepare(request)
        try:
            while True:
                await answer.write(b"x" * 10_000)
        finally:
            hung_up.set()

    web_server.pages["/"] = endless
    page = await get(web_server)
    assert (len(page.body), page.cut) == (100_000, True)
    await asyncio.wait_for(hung_up.wait(), READY_TIMEOUT_S)


async def test_a_server_that_does_not_answer_is_given_up(
    web_server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "SILENCE_S", 0.05)
    never = asyncio.Event()

    async def silent(_request: web.Request) -> web.Response:
        await never.wait()
        return web.Response()

    web_server.pages["/"] = silent
    with pytest.raises(FetchError, match="in time"):
        await get(web_server)


# Stopping


class Stuck:
    """A server that reaches a phase, says so, and goes no further."""

    def __init__(self, server: WebServer, phase: str):
        self.reached = threading.Event()
        self.hung_up = asyncio.Event()
        self._released = threading.Event()
        self._phase = phase
        self.rules = replace(server.rules, look_up=self._look_up) if phase == "looking up" else server.rules
        server.pages["/"] = self._answer

    def release(self) -> None:
        self._released.set()

    def _look_up(self, *_: Any) -> list[Any]:
        self.reached.set()
        self._released.wait(READY_TIMEOUT_S)
        return []

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
        if self._phase == "in the body":
            await answer.prepare(request)
            await answer.write(b"half")
        self.reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.hung_up.set()
        return answer


@pytest.mark.parametrize("phase", ["looking up", "before the headers", "in the body"])
async def test_a_cancel_ends_it_in_every_phase_and_leaves_nothing_open(phase: str, web_server: WebServer) -> None:
    stuck = Stuck(web_server, phase)
    book = Book()
    with booked(book):
        task = asyncio.create_task(fetch(f"{web_server.url}/", stuck.rules))
    await eventually(stuck.reached.is_set)
    task.cancel()
    await asyncio.wait({task}, timeout=READY_TIMEOUT_S)
    assert task.cancelled()
    assert book.open == 0
    if phase != "looking up":
        await asyncio.wait_for(stuck.hung_up.wait(), READY_TIMEOUT_S)
    stuck.release()


async def test_its_connection_is_in_the_book_of_the_run_so_that_a_stop_closes_it(web_server: WebServer) -> None:
    stuck = Stuck(web_server, "in the body")
    book = Book()
    with booked(book):
        task = asyncio.create_task(fetch(f"{web_server.url}/", stuck.rules))
    await eventually(stuck.reached.is_set)
    assert book.open == 1
    book.close()
    with pytest.raises(FetchError):
        await asyncio.wait_for(task, READY_TIMEOUT_S)
    await asyncio.wait_for(stuck.hung_up.wait(), READY_TIMEOUT_S)


async def test_after_a_stop_nothing_is_asked_any_more(web_server: WebServer) -> None:
    book = Book()
    book.close()
    with booked(book), pytest.raises(FetchError):
        await get(web_server)
    assert web_server.requests == []
