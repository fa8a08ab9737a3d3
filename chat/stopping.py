"""Stop and panic as people say them: the kernel's orders, and what they mean for the queue."""

from collections.abc import Sequence
from typing import Any

from django.contrib.auth import get_user_model

from chat.errors import Invalid, NotFound
from chat.models import ChatSession
from chat.people import Person, with_permissions
from kernel import control, lanes, orders
from kernel.abort import AbortReason
from kernel.audit import AuditEntry, Verb
from kernel.control import Counts, Ordered, Target
from kernel.models import ExecutionRecord, Intent, uuid_of
from kernel.registry import Execution
from kernel.worker import ThisWorker


async def order_stop(
    worker: ThisWorker,
    person: Person,
    session_key: str,
    execution_id: str | None = None,
    *,
    source: str,
    reason: AbortReason = AbortReason.SESSION_STOP,
    struck: Sequence[Execution] = (),
) -> Ordered:
    """Stop a session, or one execution of it. Raises `NotFound`.

    `struck` is what was aborted for this stop before. Needs no database for the person's own runs on this worker.
    """
    target = Target(session_key=session_key, execution_id=execution_id)
    intent = Intent(reason=reason, by=person.name, source=source)
    mine = Target(session_key=session_key, execution_id=execution_id, user_id=person.id)
    struck = [*struck, *control.strike(worker, mine, intent)]
    # An admitted run of the person's proves that the session is theirs, and nothing has to be looked up. One that is
    # still being admitted proves nothing: the message may merely name somebody else's session.
    if any(execution.admitted for execution in struck):
        return await control.order(worker, mine, intent, struck=struck)
    # So do runs of theirs that other workers have: the order goes out before anything else is asked of the database.
    if not struck and ((theirs := await control.order(worker, mine, intent)).ids or theirs.failed):
        return theirs
    finished = await lanes.control.run(_look, person, session_key, execution_id)
    ordered = await control.order(worker, target, intent, struck=struck)
    ordered.finished.update(finished)
    return ordered


async def order_panic(person: Person, *, hold: bool, reason: str, scope: dict[str, Any], source: str) -> Ordered:
    """Stop everything, or everything of a user or a model; with `hold`, keep it stopped. Raises `Invalid`."""
    user_id = await lanes.control.run(_user_named, scope["user"]) if scope.get("user") else None
    model = scope.get("model", "")
    return await orders.panic(by=person.name, source=source, why=reason, hold=hold, user_id=user_id, model=model)


async def confirm(worker: ThisWorker, person: Person, ordered: Ordered) -> Counts:
    return await control.confirm(worker, ordered, active=person.sees)


def _look(person: Person, session_key: str, execution_id: str | None) -> list[str]:
    """Check that the session and the execution are the person's to stop; return the execution if it has ended."""
    session = ChatSession.objects.filter(key=session_key).only("user_id").first()
    if session is None:
        raise NotFound
    if session.user_id != person.id and not with_permissions(person).may_stop_any:
        AuditEntry.objects.write_refused(Verb.STOP, by=person.name, source="web", target=f"session {session_key}")
        raise NotFound
    if execution_id is None:
        return []
    record = ExecutionRecord.objects.of_session(session_key).filter(pk=uuid_of(execution_id)).first()
    if record is None:
        raise NotFound("There is no such execution in this session.")
    return [] if record.status == "running" else [str(record.pk)]


def _user_named(name: str) -> int:
    users = get_user_model()
    user_id = users.objects.filter(**{users.USERNAME_FIELD: name}).values_list("pk", flat=True).first()
    if user_id is None:
        raise Invalid(f"There is no user {name!r}.")
    return user_id
