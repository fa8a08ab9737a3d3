"""Who may open the socket: the page's own origin, a trusted one, and programs, which send none."""

import pytest
from pytest_django import Settings

from studio.access import origin_allowed


@pytest.fixture(autouse=True)
def hosts(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["studio.test", "127.0.0.1", "[::1]"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://trusted.test", "https://*.wild.test", "http://plain.test:8080"]


@pytest.mark.parametrize(
    ("host", "origin", "scheme", "allowed"),
    [
        ("studio.test", "http://studio.test", "ws", True),
        ("studio.test", "https://studio.test", "wss", True),
        ("STUDIO.test", "http://studio.TEST", "ws", True),
        ("studio.test:80", "http://studio.test", "ws", True),
        ("studio.test", "https://studio.test:443", "wss", True),
        ("studio.test:8000", "http://studio.test:8000", "ws", True),
        ("127.0.0.1:8000", "http://127.0.0.1:8000", "ws", True),
        ("[::1]:8000", "http://[::1]:8000", "ws", True),
        ("[::1]", "http://[::1]", "ws", True),
        ("studio.test", "https://trusted.test", "ws", True),
        ("studio.test", "https://a.wild.test", "ws", True),
        ("studio.test", "http://plain.test:8080", "ws", True),
        ("studio.test", "", "ws", True),
        ("studio.test", "https://studio.test", "ws", False),
        ("studio.test", "http://studio.test", "wss", False),
        ("studio.test:8000", "http://studio.test", "ws", False),
        ("studio.test", "http://studio.test:8000", "ws", False),
        ("studio.test", "http://evil.test", "ws", False),
        ("studio.test", "http://studio.test.evil.test", "ws", False),
        ("studio.test", "http://evil.test/studio.test", "ws", False),
        ("studio.test", "http://studio.test@evil.test", "ws", False),
        ("studio.test", "http://trusted.test", "ws", False),
        ("studio.test", "https://trusted.test:8443", "ws", False),
        ("studio.test", "https://wild.test", "ws", False),
        ("studio.test", "https://evilwild.test", "ws", False),
        ("studio.test", "http://a.wild.test", "ws", False),
        ("studio.test", "null", "ws", False),
        ("studio.test", "nonsense", "ws", False),
        ("studio.test", "http://[", "ws", False),
        ("evil.test", "http://evil.test", "ws", False),
        ("evil.test", "", "ws", False),
        ("", "", "ws", False),
    ],
)
def test_an_origin_is_judged_with_its_host(host: str, origin: str, scheme: str, allowed: bool) -> None:
    headers = {b"host": host.encode()}
    if origin:
        headers[b"origin"] = origin.encode()
    assert origin_allowed(headers, scheme) is allowed


@pytest.mark.parametrize(("proto", "allowed"), [("https", True), ("https, http", True), ("http", False), ("", False)])
def test_behind_a_proxy_the_pages_scheme_is_what_the_proxy_says(proto: str, allowed: bool) -> None:
    headers = {b"host": b"studio.test", b"origin": b"https://studio.test", b"x-forwarded-proto": proto.encode()}
    assert origin_allowed(headers, "ws") is allowed
