"""Getting what stands at a public address of the web, and nothing else.

A model, or a page that it has read, chooses the address: so it could try to reach what only this machine can. The one
gate is where a socket is made: it sees the very address that is about to be connected to, whatever name, number or
redirect has led there, so that no second look-up can lead elsewhere. The connections are booked on the run like those
to its provider: a stop closes them at once.
"""

import functools
import socket
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from kernel.aio import finish
from kernel.errors import ToldError
from kernel.llm.connector import BookingConnector
from kernel.threads import in_thread
from kernel.tools.builtin.public import is_public

REDIRECTS_MAX = 5
BODY_MAX_BYTES = 2 * 1024 * 1024
CONNECT_S = 10.0
SILENCE_S = 15.0
PORTS = frozenset({80, 443, 8080, 8443})
READABLE = {"text/html", "application/xhtml+xml", "text/plain", "application/json", "application/xml", "text/xml"}
READABLE_ENDINGS = ("+json", "+xml")
ENCODINGS = {"", "identity", "gzip", "x-gzip", "deflate"}
NO_ADDRESS = "That is no address of a web page. Give one such as https://example.org/page."
REDIRECTS = {301, 302, 303, 307, 308}
HEADERS = {
    "User-Agent": "studio/1.0 (read_web_page, on behalf of a person)",
    "Accept": "text/html, application/xhtml+xml, text/plain, application/json, application/xml;q=0.9",
    "Accept-Encoding": "gzip, deflate",
}


class FetchError(ToldError):
    """The page could not be had; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """Where one may go, and how names are looked up. Tests have a server on this machine and names of their own."""

    is_public: Callable[[str], bool] = is_public
    ports: frozenset[int] = PORTS
    look_up: Callable[..., list[Any]] = socket.getaddrinfo


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """What came: the last address, and the body as it was sent, `encoding` and all; `cut` where there was more."""

    url: str
    content_type: str
    charset: str
    encoding: str
    body: bytes
    cut: bool


async def fetch(url: str, rules: Rules) -> Page:
    """Get the page at `url`, through at most `REDIRECTS_MAX` redirects. Raises `FetchError`."""
    gate = _Gate(rules)
    session = _session(gate, rules)
    try:
        return await _follow(session, _checked(url, rules), rules)
    except aiohttp.ClientConnectorError as error:
        if gate.refused:
            raise FetchError("That address is not public; only pages of the public web can be read.") from error
        raise FetchError(
            f"There is no way to {error.host}: {error.os_error.strerror or 'it does not answer'}."
        ) from error
    except aiohttp.InvalidURL as error:
        raise FetchError(NO_ADDRESS) from error
    except TimeoutError as error:
        raise FetchError("The server does not answer in time.") from error
    except (aiohttp.ClientError, ValueError) as error:
        raise FetchError(f"The page could not be read ({type(error).__name__}).") from error
    finally:
        await finish(session.close())


class _Gate:
    """Makes the sockets, to public addresses only."""

    def __init__(self, rules: Rules):
        self._rules = rules
        self.refused = False

    def socket(self, info: Any) -> socket.socket:
        family, kind, protocol, _, address = info
        if not self._rules.is_public(address[0]):
            self.refused = True
            raise PermissionError("The address is not public.")
        return socket.socket(family, kind, protocol)


class _Resolver(AbstractResolver):
    """Looks names up in a thread of its own: a name server that says nothing holds nobody else up."""

    def __init__(self, rules: Rules):
        self._look_up = rules.look_up

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        look_up = functools.partial(self._look_up, host, port, family, socket.SOCK_STREAM)
        found = await in_thread(look_up, name=f"look up {host}")
        return [
            ResolveResult(hostname=host, host=address[0], port=port, family=family, proto=protocol, flags=0)
            for family, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        """Nothing is kept."""


def _session(gate: _Gate, rules: Rules) -> aiohttp.ClientSession:
    connector = BookingConnector(
        resolver=_Resolver(rules), use_dns_cache=False, force_close=True, socket_factory=gate.socket
    )
    return aiohttp.ClientSession(
        connector=connector,
        headers=HEADERS,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,  # no proxy: it would connect for us, past the gate
        auto_decompress=False,  # a few bytes can unfold to gigabytes: that is done elsewhere, and bounded
        timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_S, sock_read=SILENCE_S),
    )


async def _follow(session: aiohttp.ClientSession, url: URL, rules: Rules) -> Page:
    for _ in range(REDIRECTS_MAX + 1):
        async with session.get(url, allow_redirects=False) as answer:
            if answer.status not in REDIRECTS:
                return await _page(answer, url)
            url = _checked(answer.headers.get("Location", ""), rules, base=url)
    raise FetchError(f"The page leads on to another more than {REDIRECTS_MAX} times.")


def _checked(text: str, rules: Rules, base: URL | None = None) -> URL:
    """The address as it will be asked for. What its host leads to is the gate's to judge."""
    try:
        url = URL(text).with_fragment(None)
        url = base.join(url) if base is not None and text else url
        port = url.port
    except ValueError as error:
        raise FetchError(NO_ADDRESS) from error
    if url.scheme not in ("http", "https") or not url.host:
        raise FetchError("Only http and https addresses with a host can be read, such as https://example.org/page.")
    if url.user is not None or url.password is not None:
        raise FetchError("An address with a user name or a password in it is not read.")
    if port not in rules.ports:
        raise FetchError(f"Port {port} is not read; pages of the public web are at ports 80 and 443.")
    return url


async def _page(answer: aiohttp.ClientResponse, url: URL) -> Page:
    if answer.status != HTTPStatus.OK:
        raise FetchError(f"The server answered with the status {answer.status} instead of a page.")
    kind, encoding = answer.content_type, answer.headers.get("Content-Encoding", "").strip().lower()
    if "Content-Type" not in answer.headers or not (kind in READABLE or kind.endswith(READABLE_ENDINGS)):
        raise FetchError(f"Only text can be read (HTML, plain text, JSON, XML); this is {kind[:80]}.")
    if encoding not in ENCODINGS:
        raise FetchError("The server compressed the page in a way that it was not asked for.")
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > BODY_MAX_BYTES:
            break
    return Page(
        url=str(url),
        content_type=kind,
        charset=answer.charset or "",
        encoding=encoding,
        body=bytes(body[:BODY_MAX_BYTES]),
        cut=len(body) > BODY_MAX_BYTES,
    )
