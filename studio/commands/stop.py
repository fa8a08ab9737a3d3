"""Stop, panic, release."""

from collections.abc import Sequence

from chat import holds, stopping
from chat.errors import Forbidden
from kernel import control, lanes, objects, orders
from kernel.abort import AbortReason
from kernel.control import Ordered, Target
from kernel.models import Hold, Intent
from kernel.registry import Execution
from studio.commands.permissions import with_permissions
from studio.commands.visit import Fields, Visit, later
from studio.protocol import AnyCommand, Panic, Release, StopSession


async def stop(visit: Visit, command: StopSession, struck: Sequence[Execution]) -> None:
    ordered = await stopping.order_stop(
        visit.worker, visit.person, command.sessionKey, command.executionId, source="web", struck=struck
    )
    later(visit, command, _confirm(visit, command, ordered, {"sessionKey": command.sessionKey}))


async def panic(visit: Visit, command: Panic) -> None:
    visit.person = await with_permissions(visit.person)
    if not visit.person.may_panic:
        raise Forbidden("Panic needs the permission kernel.panic. Ask an operator.")
    scope = command.scope.model_dump(exclude_none=True) if command.scope else {}
    ordered = await stopping.order_panic(
        visit.person, hold=command.hold, reason=command.reason, scope=scope, source="web"
    )
    fields: Fields = {"heldCount": 0}
    if ordered.hold is not None:
        fields = await lanes.reads.run(_hold_fields, ordered.hold)
        holds.changed()
    later(visit, command, _confirm(visit, command, ordered, fields))


async def strike_panic(visit: Visit, command: Panic) -> None:
    """Abort at once what this process owns of a panic that still waits in line behind other frames."""
    person = await with_permissions(visit.person)
    scope = command.scope
    if person.may_panic and (scope is None or scope.user is None):
        target = Target(model=scope.model if scope else None)
        intent = Intent(reason=AbortReason.PANIC_STOP, by=person.name, source="web", why=command.reason)
        control.strike(visit.worker, target, intent)


async def _confirm(visit: Visit, command: AnyCommand, ordered: Ordered, fields: Fields) -> None:
    counts = await stopping.confirm(visit.worker, visit.person, ordered)
    fields = {**fields, **objects.counts(counts)}
    if counts.failed:
        error = (
            "The database cannot be reached. What runs on this server was stopped at once; the end of the rest could "
            "not be confirmed. Stop again when the database is back."
        )
        visit.refuse(command, "internal", error, fields)
    else:
        visit.reply(command, fields)


async def release(visit: Visit, command: Release) -> None:
    visit.person = await with_permissions(visit.person)
    if not visit.person.may_panic:
        raise Forbidden("Releasing a hold needs the permission kernel.panic. Ask an operator.")
    released = await lanes.control.run(control.release, command.holdId, visit.person.name)
    visit.reply(command, {"released": bool(released)})
    holds.changed()


def _hold_fields(hold: Hold) -> Fields:
    return {
        "heldCount": orders.waiting(Target(user_id=hold.scope_user_id, model=hold.scope_model or None)),
        "hold": objects.hold(hold),
    }
