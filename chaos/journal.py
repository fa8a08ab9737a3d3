"""What was done, answered and broken, with the wall clock's seconds: the one side of what the invariants compare."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Frame = dict[str, Any]

# What a refusal means that leaves open whether the thing was done.
UNCERTAIN = "internal"
SEND = "studio_chat_send"


@dataclass(kw_only=True, eq=False)
class Deed:
    """One request and its reply; `reply` stays None if it was lost with the socket, or with patience."""

    round: tuple[int, int]  # its seed and number
    operation: int  # of the round's plan; -1 for what brings it to rest
    person: str
    type: str
    key: str
    fields: dict[str, Any]
    sent_s: float
    replied_s: float = 0.0
    reply: Frame | None = None

    @property
    def ok(self) -> bool:
        return self.reply is not None and self.reply.get("ok") is True

    @property
    def certain(self) -> bool:
        """Whether the reply says what has become of it."""
        return self.reply is not None and (self.ok or self.reply.get("code") != UNCERTAIN)

    def __str__(self) -> str:
        told = {name: value for name, value in self.fields.items() if name not in ("requestId", "sessionKey")}
        answer = "no reply" if self.reply is None else _shorter(self.reply)
        return f"#{self.operation} {self.sent_s:.3f} {self.person} {self.type} {self.key} {told} -> {answer}"


@dataclass(kw_only=True)
class Sent:
    """One message that a person wants sent, with every try under the one `clientMessageId`."""

    id: str  # its clientMessageId, and the name of its requests at the provider
    person: str
    key: str
    text: str
    tries: list[Deed] = field(default_factory=list)

    @property
    def settled(self) -> bool:
        """Whether the person knows what has become of it."""
        return bool(self.tries) and self.tries[-1].certain

    @property
    def accepted(self) -> bool:
        return any(deed.ok for deed in self.tries)

    @property
    def refused(self) -> bool:
        """Every try was answered, with a refusal."""
        return all(deed.certain and not deed.ok for deed in self.tries)


@dataclass(kw_only=True)
class Disturbance:
    """A fault as it happened. `pid` is the worker's that it struck; None if it was a server, which strikes all."""

    round: tuple[int, int]
    kind: str
    pid: int | None
    began_s: float
    ended_s: float | None = None

    def __str__(self) -> str:
        return f"{self.began_s:.3f} {self.kind} of {self.pid or 'a server'} until {self.ended_s or 0:.3f}"


@dataclass
class Journal:
    """Of a whole campaign; `round` is the seed and the number of the round that is played."""

    round: tuple[int, int] = (0, 0)
    deeds: list[Deed] = field(default_factory=list)
    sent: dict[str, Sent] = field(default_factory=dict)
    key_of: dict[str, str] = field(default_factory=dict)  # the session of each name of requests at the provider
    removed: set[str] = field(default_factory=set)  # the clientMessageIds that were, or may have been, removed
    deleted: set[str] = field(default_factory=set)  # keys whose deletion was asked for
    disturbances: list[Disturbance] = field(default_factory=list)

    def of_round(self) -> list[Deed]:
        return [deed for deed in self.deeds if deed.round == self.round]

    def faults(self) -> list[Disturbance]:
        return [fault for fault in self.disturbances if fault.round == self.round]

    def orders(self, *types: str) -> Iterator[Deed]:
        """The round's requests of these types that were answered with ok."""
        return (deed for deed in self.of_round() if deed.type in types and deed.ok)


def _shorter(reply: Frame) -> Frame:
    left_out = ("type", "requestId", "timestamp", "sessionKey", "messages", "queue", "sessions", "session", "holds")
    return {name: value for name, value in reply.items() if name not in left_out}
