"""Frames ↔ values: every client frame is parsed here, once, into a typed command, or refused with the contract's code.

Source: docs/protocol.md. Unknown fields are ignored, so that newer clients can talk to older servers.
"""

import json
import re
import time
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

FRAME_MAX_BYTES = 512 * 1024
MESSAGE_MAX_BYTES = 4 * 1024 * 1024
REQUEST_ID_MAX = 128
# NUL, which PostgreSQL refuses, and halves of surrogate pairs, which are no characters.
UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class FrameError(Exception):
    """The frame cannot be understood."""

    def __init__(self, code: str, message: str, request_id: str | None = None):
        super().__init__(message)
        self.code = code
        self.request_id = request_id


SessionKey = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
# Ids of rows are decimal; an id that cannot exist is simply not found, so only its length is bounded.
Id = Annotated[str, Field(min_length=1, max_length=128)]
ClientMessageId = Annotated[str, Field(min_length=1, max_length=128)]
ModelName = Annotated[str, Field(min_length=1, max_length=255)]


class Command(BaseModel):
    """What every client frame has."""

    model_config = ConfigDict(strict=True, frozen=True)

    requestId: Annotated[str, Field(max_length=REQUEST_ID_MAX)] | None = None


class PageContext(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)

    title: Annotated[str, Field(max_length=2000)] | None = None
    url: Annotated[str, Field(max_length=4000)] | None = None
    text: str | None = None

    def fields(self) -> dict[str, str]:
        return {name: value for name, value in self.model_dump().items() if value is not None}


class StopSession(Command):
    type: Literal["studio_chat_stop_session"]
    sessionKey: SessionKey
    executionId: Id | None = None


class Scope(BaseModel):
    # A misspelt scope must not become a panic for everyone.
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    user: Annotated[str, Field(min_length=1, max_length=150)] | None = None
    model: ModelName | None = None


class Panic(Command):
    type: Literal["studio_chat_panic"]
    hold: bool = False
    reason: Annotated[str, Field(max_length=2000)] = ""
    scope: Scope | None = None


class Release(Command):
    type: Literal["studio_chat_release"]
    holdId: Id


class Send(Command):
    type: Literal["studio_chat_send"]
    sessionKey: SessionKey
    text: str
    clientMessageId: ClientMessageId | None = None
    roleId: Id | None = None
    model: ModelName | None = None
    context: PageContext | None = None
    interrupted: bool = False
    whenBusy: Literal["queue", "interrupt", "reject"] = "queue"


class Subscribe(Command):
    type: Literal["studio_chat_subscribe"]
    sessionKey: SessionKey
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    before: Id | None = None


class Unsubscribe(Command):
    type: Literal["studio_chat_unsubscribe"]
    sessionKey: SessionKey


class SendNow(Command):
    type: Literal["studio_chat_send_now"]
    sessionKey: SessionKey
    queueId: Id
    clientMessageId: ClientMessageId | None = None


class QueueEdit(Command):
    type: Literal["studio_chat_queue_edit"]
    sessionKey: SessionKey
    queueId: Id
    text: str


class QueueRemove(Command):
    type: Literal["studio_chat_queue_remove"]
    sessionKey: SessionKey
    queueId: Id


class QueueMove(Command):
    type: Literal["studio_chat_queue_move"]
    sessionKey: SessionKey
    queueId: Id
    position: Annotated[int, Field(ge=0, le=10**6)]


class QueueHold(Command):
    type: Literal["studio_chat_queue_hold"]
    sessionKey: SessionKey
    queueId: Id
    editing: bool


class Regenerate(Command):
    type: Literal["studio_chat_regenerate"]
    sessionKey: SessionKey
    messageId: Id


class Continue(Command):
    type: Literal["studio_chat_continue"]
    sessionKey: SessionKey
    messageId: Id


class Resend(Command):
    type: Literal["studio_chat_resend"]
    sessionKey: SessionKey
    messageId: Id
    text: str


class Sessions(Command):
    type: Literal["studio_chat_sessions"]
    query: Annotated[str, Field(max_length=200)] | None = None
    before: SessionKey | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class SessionRename(Command):
    type: Literal["studio_chat_session_rename"]
    sessionKey: SessionKey
    title: str


class SessionDelete(Command):
    type: Literal["studio_chat_session_delete"]
    sessionKey: SessionKey


class ExecutionsSubscribe(Command):
    type: Literal["studio_chat_executions_subscribe"]


class ExecutionsUnsubscribe(Command):
    type: Literal["studio_chat_executions_unsubscribe"]


class Options(Command):
    type: Literal["studio_chat_options"]


class Ping(Command):
    type: Literal["studio_chat_ping"]


AnyCommand = (
    StopSession
    | Panic
    | Release
    | Send
    | Subscribe
    | Unsubscribe
    | SendNow
    | QueueEdit
    | QueueRemove
    | QueueMove
    | QueueHold
    | Regenerate
    | Continue
    | Resend
    | Sessions
    | SessionRename
    | SessionDelete
    | ExecutionsSubscribe
    | ExecutionsUnsubscribe
    | Options
    | Ping
)
_commands: TypeAdapter[AnyCommand] = TypeAdapter(Annotated[AnyCommand, Field(discriminator="type")])
TYPES = frozenset(get_args(command.model_fields["type"].annotation)[0] for command in get_args(AnyCommand))


def parse(text: str | None) -> AnyCommand:
    """Parse one text frame (None: it was binary). Raises `FrameError`, with the requestId where it could be read."""
    if text is None:
        raise FrameError("bad_json", "Binary frames are not understood; send JSON text.")
    if len(text) > FRAME_MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > FRAME_MAX_BYTES:
        raise FrameError("too_large", f"The frame is larger than {FRAME_MAX_BYTES // 1024} KiB.")
    frame = _object(text)
    request_id = _request_id(frame)
    if not _storable(frame):
        raise FrameError("bad_frame", "The frame contains NUL or half of a surrogate pair.", request_id)
    kind = frame.get("type")
    if not isinstance(kind, str):
        raise FrameError("bad_frame", "The field 'type' is missing or not a string.", request_id)
    if kind not in TYPES:
        raise FrameError("unknown_type", f"The type {kind[:64]!r} is unknown.", request_id)
    try:
        return _commands.validate_python(frame)
    except ValidationError as error:
        raise FrameError("bad_frame", _readable(error), request_id) from None


def reply(command_type: str, request_id: str | None, fields: dict[str, Any]) -> dict[str, Any]:
    """The reply to a command that went through."""
    return {"type": f"{command_type}_ok", "ok": True, "requestId": request_id, "timestamp": now_ms(), **fields}


def refusal(command_type: str, request_id: str | None, code: str, error: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The reply to a command that was refused."""
    return {**reply(command_type, request_id, fields), "ok": False, "code": code, "error": error}


def error_frame(error: FrameError) -> dict[str, Any]:
    """The answer to a frame that could not be understood."""
    return {
        "type": "studio_chat_error",
        "ok": False,
        "code": error.code,
        "error": str(error),
        "requestId": error.request_id,
        "timestamp": now_ms(),
    }


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def _object(text: str) -> dict[str, Any]:
    try:
        frame = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise FrameError("bad_json", f"The frame is not JSON: {str(error)[:200]}") from None
    if not isinstance(frame, dict):
        raise FrameError("bad_frame", "The frame must be a JSON object.")
    return frame


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _request_id(frame: dict[str, Any]) -> str | None:
    request_id = frame.get("requestId")
    if isinstance(request_id, str) and len(request_id) <= REQUEST_ID_MAX and _storable(request_id):
        return request_id
    return None


def _storable(value: Any) -> bool:
    """Whether every string in `value` is text that can be sent on and stored. Without recursion, however deep it is."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                if UNSTORABLE.search(text):
                    return False
            case dict() as fields:
                waiting += [*fields.keys(), *fields.values()]
            case list() as items:
                waiting += items
    return True


def _readable(error: ValidationError) -> str:
    """One sentence on what is wrong, without the value itself."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"][1:]) or "the frame"
    return f"The field {field!r} is wrong: {first['msg']}."
