"""Which MCP servers there are, and what this worker and the others have met of them.

An operator writes the upper half of a row, in the admin; workers write the lower half. A `ServerConfig` is what of it
makes a connection: if it changes, the connection is made anew.
"""

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

# With the longest name, forty characters are left for the tool's: what every provider accepts is 64.
NAME_MAX = 22
NAME = r"\A[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*\Z"
LONGEST_S = 3600.0
ERROR_MAX = 500
SECRET_MIN_CHARS = 6  # shorter values are no secrets, and stand everywhere

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
# The protocol's own.
HEADERS_TAKEN = {"accept", "content-length", "content-type", "host", "last-event-id", "transfer-encoding"}


class Transport(models.TextChoices):
    STDIO = "stdio", _("a program on this machine (stdio)")
    HTTP = "http", _("an address (streamable HTTP)")


Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerConfig:
    """All that a connection to one server needs. `env` and `headers` may hold secrets and are never shown."""

    pk: int
    name: str
    transport: str
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Pairs = field(default=(), repr=False)
    url: str = field(default="", repr=False)
    headers: Pairs = field(default=(), repr=False)
    connect_timeout_s: float = 10.0
    call_timeout_s: float | None = None

    def without_secrets(self, words: str) -> str:
        """What the server said, without what it was given in confidence."""
        for _name, value in (*self.env, *self.headers):
            for secret in (value, value.rpartition(" ")[2]):  # a header's, with and without its scheme
                if len(secret) >= SECRET_MIN_CHARS:
                    words = words.replace(secret, "…")
        return words


class McpServerQuerySet(models.QuerySet["McpServer"]):
    def configs(self) -> list[ServerConfig]:
        """The enabled ones, in the order of their names."""
        return [server.config for server in self.filter(enabled=True).order_by("name")]

    def met(self, pk: int, *, tools: int) -> None:
        """The server has told its tools."""
        self.filter(pk=pk).update(seen_at=Now(), tool_count=tools, last_error="", failed_at=None)

    def failed(self, pk: int, why: str) -> None:
        """The server could not be used."""
        self.filter(pk=pk).update(last_error=why[:ERROR_MAX], failed_at=Now())


class McpServer(models.Model):
    """A server of the Model Context Protocol whose tools agents may call."""

    name = models.CharField(
        _("name"),
        max_length=NAME_MAX,
        unique=True,
        validators=[RegexValidator(NAME, _("Write letters and digits, with single hyphens or underscores between."))],
        help_text=_("Its tools are called name__tool, and roles name them so."),
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    transport = models.CharField(_("reached by"), max_length=8, choices=Transport.choices, default=Transport.STDIO)
    command = models.CharField(
        _("program"),
        max_length=500,
        blank=True,
        help_text=_(
            "It is run on this machine, by each worker, with the rights of the studio itself. "
            "Enter only programs that you trust. No shell reads it."
        ),
    )
    args = models.JSONField(_("arguments"), default=list, blank=True, help_text=_("One on each line."))
    env = models.JSONField(
        _("environment"),
        default=dict,
        blank=True,
        help_text=_("NAME=value, one on each line. Of the studio's own environment the program sees next to nothing."),
    )
    url = models.CharField(
        _("address"),
        max_length=1000,
        blank=True,
        help_text=_("As in https://example.org/mcp. What agents give to its tools is sent there."),
    )
    headers = models.JSONField(
        _("headers"), default=dict, blank=True, help_text=_("As in Authorization: Bearer …, one on each line.")
    )
    connect_timeout_s = models.FloatField(
        _("limit to connect, in seconds"),
        default=10.0,
        validators=[MinValueValidator(0.1), MaxValueValidator(LONGEST_S)],
        help_text=_("For its start and the list of its tools."),
    )
    call_timeout_s = models.FloatField(
        _("limit of a call, in seconds"),
        null=True,
        blank=True,
        validators=[MinValueValidator(0.1), MaxValueValidator(LONGEST_S)],
        help_text=_("Empty: STUDIO_TOOL_TIMEOUT_S."),
    )
    # What workers have met.
    seen_at = models.DateTimeField(_("last seen"), null=True, editable=False)
    tool_count = models.PositiveIntegerField(_("tools"), null=True, editable=False)
    last_error = models.CharField(_("last error"), max_length=ERROR_MAX, blank=True, editable=False)
    failed_at = models.DateTimeField(_("failed at"), null=True, editable=False)

    objects = McpServerQuerySet.as_manager()

    class Meta:
        verbose_name = _("MCP server")
        verbose_name_plural = _("MCP servers")
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def config(self) -> ServerConfig:
        stdio = self.transport == Transport.STDIO
        return ServerConfig(
            pk=self.pk or 0,
            name=self.name,
            transport=self.transport,
            command=self.command if stdio else "",
            args=tuple(self.args) if stdio else (),
            env=tuple(self.env.items()) if stdio else (),
            url="" if stdio else self.url,
            headers=() if stdio else tuple(self.headers.items()),
            connect_timeout_s=self.connect_timeout_s,
            call_timeout_s=self.call_timeout_s,
        )

    def clean(self) -> None:
        """What the chosen transport needs is there, and can be used as it is written."""
        problems = _problems_of_program(self) if self.transport == Transport.STDIO else _problems_of_address(self)
        if problems:
            raise ValidationError(problems)


def _problems_of_program(server: McpServer) -> dict[str, str]:
    problems: dict[str, str] = {}
    if not server.command.strip():
        problems["command"] = gettext("Write the program to run.")
    elif any("\0" in word for word in (server.command, *server.args)):
        problems["command"] = gettext("A program and its arguments hold no NUL.")
    wrong = [name for name, value in server.env.items() if not VARIABLE.fullmatch(name) or "\0" in value]
    if wrong:
        problems["env"] = gettext("%s cannot be the name of a variable.") % repr(wrong[0])
    return problems


def _problems_of_address(server: McpServer) -> dict[str, str]:
    problems: dict[str, str] = {}
    if why := _problem_of_url(server.url):
        problems["url"] = why
    for name, value in server.headers.items():
        if not HEADER.fullmatch(name) or name.lower() in HEADERS_TAKEN or name.lower().startswith("mcp-"):
            problems["headers"] = gettext("%s cannot be set as a header.") % repr(name)
        elif not value.isascii() or not value.isprintable():
            problems["headers"] = gettext("The value of the header %s must be plain ASCII.") % repr(name)
    return problems


def _problem_of_url(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or url != url.strip() or not url.isprintable():
        return gettext("Write a whole address, as in https://example.org/mcp.")
    if parts.username or parts.password:
        return gettext("A name or a password goes into a header, not into the address.")
    return None
