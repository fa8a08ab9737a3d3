"""Who may open the WebSocket: the page's own origin, and people who are logged in."""

from urllib.parse import SplitResult, urlsplit

from django.conf import settings
from django.http.request import split_domain_port, validate_host

DEFAULT_PORTS = {"http": "80", "https": "443"}


def origin_allowed(headers: dict[bytes, bytes], scheme: str) -> bool:
    """Whether the handshake's Origin is this site (scheme, host and port as in Host) or a trusted one.

    `scheme` is the socket's (`ws` or `wss`). Programs send no Origin; every browser does, so its absence is no risk.
    """
    host = headers.get(b"host", b"").decode("latin-1").lower()
    domain, _ = split_domain_port(host)
    if not validate_host(domain, settings.ALLOWED_HOSTS):
        return False
    origin = headers.get(b"origin", b"").decode("latin-1").lower()
    if not origin:
        return True
    if origin in (trusted.lower() for trusted in settings.CSRF_TRUSTED_ORIGINS if "*" not in trusted):
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    page_scheme = "https" if scheme == "wss" or _behind_tls(headers) else "http"
    if _same(parts, page_scheme, host):
        return True
    return any(_matches(parts, trusted) for trusted in settings.CSRF_TRUSTED_ORIGINS if "*" in trusted)


def _behind_tls(headers: dict[bytes, bytes]) -> bool:
    name, value = settings.SECURE_PROXY_SSL_HEADER
    header = name.removeprefix("HTTP_").replace("_", "-").lower().encode()
    return headers.get(header, b"").decode("latin-1").split(",")[0].strip() == value


def _same(parts: SplitResult, scheme: str, host: str) -> bool:
    default = DEFAULT_PORTS[scheme]
    return parts.scheme == scheme and _with_port(parts.netloc, default) == _with_port(host, default)


def _with_port(host: str, default: str) -> str:
    has_port = host.rpartition("]")[2].rpartition(":")[1] == ":"
    return host if has_port else f"{host}:{default}"


def _matches(parts: SplitResult, trusted: str) -> bool:
    """A trusted origin with a wildcard, as Django reads it: `https://*.example.org`."""
    scheme, _, pattern = trusted.partition("://")
    return parts.scheme == scheme and parts.netloc.endswith(pattern.removeprefix("*"))
