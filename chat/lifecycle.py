"""What the chat does while a worker lives: tells of others' turns and of holds; if configured, ends unwatched turns."""

import time
from typing import Any

from chat import holds
from chat.live import LiveTurn
from chat.turns import turns_of
from kernel import bus, conf
from kernel.abort import AbortReason
from kernel.hub import Frame, hub
from kernel.worker import ThisWorker, executions_recovered, on_poll, this_worker

_unwatched_since_s: dict[str, float] = {}


def attach(_worker: ThisWorker) -> None:
    """Connect the chat to the worker's signals. Doing it again changes nothing."""
    executions_recovered.connect(_on_recovered, dispatch_uid="chat.lifecycle")
    bus.answers["live_turn"] = _live_turn
    hub.subscribe(holds.TOPIC, _holds_changed)
    for look in (_end_unwatched, _mirror, _keep_promises):
        if look not in on_poll:
            on_poll.append(look)


async def _on_recovered(worker: ThisWorker, execution_ids: list[str], **_: Any) -> None:
    await turns_of(worker).take_over(execution_ids)


def _live_turn(question: dict[str, Any]) -> dict[str, Any] | None:
    """Another worker asks how a turn of this one stands."""
    turn = turns_of(this_worker()).live_in(question["session_key"])
    return turn.snapshot() if turn is not None else None


def _holds_changed(_news: Frame) -> None:
    turns_of(this_worker()).mirror.holds.look()


def _mirror(worker: ThisWorker) -> None:
    turns_of(worker).mirror.poll()


def _keep_promises(worker: ThisWorker) -> None:
    turns_of(worker).keep_promises_soon()


def _is_watched(worker: ThisWorker, turn: LiveTurn) -> bool:
    """Whether anybody follows the turn's session, here or, as far as the bus tells, at another worker."""
    return bool(hub.listeners(turn.topic)) or worker.bus.others_follow(turn.topic)


def _end_unwatched(worker: ThisWorker) -> None:
    """With STUDIO_ON_DISCONNECT=abort, end the turns whose session nobody has followed for the grace period."""
    if not conf.abort_on_disconnect():
        return
    now_s = time.monotonic()
    unwatched = {turn.execution.id: turn for turn in turns_of(worker) if not _is_watched(worker, turn)}
    for execution_id in set(_unwatched_since_s) - set(unwatched):
        del _unwatched_since_s[execution_id]
    for execution_id, turn in unwatched.items():
        since_s = _unwatched_since_s.setdefault(execution_id, now_s)
        if now_s - since_s >= conf.disconnect_grace_s():
            turn.execution.controller.abort(AbortReason.DISCONNECT, source="policy")
