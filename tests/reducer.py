"""The reference reducer: what the events of a session mean. Pure; written from the wire contract alone.

Promise held by the parity tests: applying the events that came after a `subscribe` to its reply gives what a fresh
`subscribe` returns. A hole in the numbering, or a delta that does not fit, raises `Resync`.
"""

import copy
from collections.abc import Iterable
from typing import Any

Frame = dict[str, Any]
State = dict[str, Any]
STATE_FIELDS = ("session", "messages", "queue", "active", "holds")
TOOL_FIELDS = ("callId", "name", "state", "input", "output", "error", "startedAt", "durationMs")
ENVELOPE = ("type", "sessionKey", "executionId", "seq", "timestamp")


class Resync(Exception):
    """The events do not continue the snapshot; subscribe again."""


def apply(events: Iterable[Frame], snapshot: Frame) -> State:
    """Apply events, in order, to the reply of an earlier subscribe. The snapshot is left as it is."""
    state: State = copy.deepcopy({name: snapshot[name] for name in STATE_FIELDS})
    numbers: dict[str, int] = {}  # the last seq of each execution; endless once it has ended
    if state["active"]:
        numbers[state["active"]["executionId"]] = state["active"]["seq"]
    for event in events:
        if _is_news(event, numbers):
            _REDUCERS[event["type"]](state, copy.deepcopy(event))
    return state


def comparable(state: Frame) -> State:
    """What must be equal in two states: everything but the clocks of what still runs."""
    state = copy.deepcopy({name: state[name] for name in STATE_FIELDS})
    if state["active"]:
        for clock in ("elapsedMs", "outputTokens"):
            (state["active"].get("progress") or {}).pop(clock, None)
        for message in state["messages"]:
            if message["status"] == "streaming":
                message.pop("usage", None)
    if state["session"]:
        state["session"].pop("updatedAt", None)
    return state


def _is_news(event: Frame, numbers: dict[str, int]) -> bool:
    execution_id = event.get("executionId")
    if execution_id is None or event["type"] not in _NUMBERED:
        return True
    last, seq = numbers.get(execution_id, 0), event["seq"]
    if seq is None:  # told by a process that is not the owner: the whole end
        return True
    if seq <= last:
        return False
    if seq != last + 1:
        raise Resync(f"after {last} came {seq} of execution {execution_id!r}")
    numbers[execution_id] = seq
    return True


def _message(state: State, event: Frame) -> None:
    message = event["message"]
    for index, known in enumerate(state["messages"]):
        if known["id"] == message["id"]:
            state["messages"][index] = message
            break
    else:
        _place(state["messages"], message)
    if message["status"] == "streaming" and not _is_later(state["active"], message):
        seq = event["seq"]
        state["active"] = {
            "executionId": event["executionId"],
            "messageId": message["id"],
            "seq": seq,
            "progress": (state["active"] or {}).get("progress"),
        }
    elif message["role"] == "assistant" and _is_active(state, event):
        state["active"] = None


def _place(messages: list[Frame], message: Frame) -> None:
    """Two turns of different workers may be told out of order: a new message stands where its id says."""
    place = len(messages)
    while place and int(messages[place - 1]["id"]) > int(message["id"]):
        place -= 1
    messages.insert(place, message)


def _is_later(active: Frame | None, message: Frame) -> bool:
    return active is not None and int(active["messageId"]) > int(message["id"])


def _progress(state: State, event: Frame) -> None:
    if _is_active(state, event):
        progress = {name: value for name, value in event.items() if name not in ENVELOPE}
        state["active"].update(progress=progress, seq=event["seq"])


def _delta(state: State, event: Frame) -> None:
    message = _find(state, event["messageId"])
    parts, index = message["parts"], event["part"]
    if index > len(parts) or (index == len(parts) and event["offset"]):
        raise Resync(f"the beginning of part {index} is missing")
    if index == len(parts):
        parts.append({"kind": event["kind"], "step": _step(state), "text": "", "startedAt": event["startedAt"]})
    part = parts[index]
    if part["kind"] != event["kind"] or len(part["text"]) != event["offset"]:
        raise Resync(f"a delta at {event['offset']} does not fit {part!r}")
    part["text"] += event["text"]
    if event["kind"] == "text":
        message["text"] = "".join(part["text"] for part in parts if part["kind"] == "text")
    _follow(state, event)


def _tool(state: State, event: Frame) -> None:
    parts, index = _find(state, event["messageId"])["parts"], event["part"]
    fields = {name: event.get(name) for name in TOOL_FIELDS}
    if index == len(parts):
        parts.append({"kind": "tool", "step": _step(state), **fields})
    else:
        parts[index].update(fields)
    _follow(state, event)


def _result(state: State, event: Frame) -> None:
    if _is_active(state, event):
        state["active"] = None


def _replace(name: str, source: str) -> Any:
    def reduce(state: State, event: Frame) -> None:
        state[name] = event[source]

    return reduce


def _is_active(state: State, event: Frame) -> bool:
    return state["active"] is not None and state["active"]["executionId"] == event["executionId"]


def _follow(state: State, event: Frame) -> None:
    if _is_active(state, event):
        state["active"]["seq"] = event["seq"]


def _find(state: State, message_id: str) -> Frame:
    for message in state["messages"]:
        if message["id"] == message_id:
            return message
    raise Resync(f"no message {message_id!r}")


def _step(state: State) -> int:
    return (state["active"]["progress"] or {}).get("step", 0)


_REDUCERS = {
    "studio_chat_message": _message,
    "studio_chat_progress": _progress,
    "studio_chat_delta": _delta,
    "studio_chat_tool": _tool,
    "studio_chat_result": _result,
    "studio_chat_queue": _replace("queue", "queue"),
    "studio_chat_session": _replace("session", "session"),
    "studio_chat_hold": _replace("holds", "holds"),
}
_NUMBERED = frozenset(list(_REDUCERS)[:5])
