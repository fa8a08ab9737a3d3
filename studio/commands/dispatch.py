"""From a parsed frame to the command that performs it."""

from collections.abc import Sequence

from kernel.registry import Execution
from studio import live_list
from studio.commands import send, session, stop
from studio.commands.visit import Answered, Visit
from studio.protocol import (
    AnyCommand,
    Continue,
    ExecutionsSubscribe,
    ExecutionsUnsubscribe,
    Options,
    Panic,
    Ping,
    QueueEdit,
    QueueHold,
    QueueMove,
    QueueRemove,
    Regenerate,
    Release,
    Resend,
    Send,
    SendNow,
    SessionDelete,
    SessionRename,
    Sessions,
    StopSession,
    Subscribe,
    Unsubscribe,
)


async def perform(visit: Visit, command: AnyCommand, struck: Sequence[Execution] = ()) -> None:
    """Perform one command; whatever happens, it is answered. `struck` is what a stop aborted while it was read."""
    with Answered(visit, command):
        match command:
            case Ping():
                visit.reply(command, {})
            case Send():
                await send.send(visit, command)
            case SendNow():
                await send.send_now(visit, command)
            case StopSession():
                await stop.stop(visit, command, struck)
            case Panic():
                await stop.panic(visit, command)
            case Release():
                await stop.release(visit, command)
            case Subscribe():
                await session.subscribe(visit, command)
            case Unsubscribe():
                visit.subscriptions.leave(command.sessionKey)
                visit.reply(command, {"sessionKey": command.sessionKey})
            case QueueEdit() | QueueRemove() | QueueMove() | QueueHold():
                await session.change_queue(visit, command)
            case Continue() | Regenerate() | Resend():
                await send.answer_again(visit, command)
            case Sessions():
                await session.listing(visit, command)
            case SessionRename():
                await session.rename(visit, command)
            case SessionDelete():
                await session.delete(visit, command)
            case ExecutionsSubscribe():
                await session.watch_executions(visit, command)
            case ExecutionsUnsubscribe():
                visit.unwatch(live_list.TOPIC)
                visit.reply(command, {})
            case Options():
                await session.options(visit, command)
