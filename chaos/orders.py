"""What must hold of stops, panics and holds: the replies' counts are the ledger's, and nothing starts under a hold."""

from collections.abc import Iterable, Iterator

from chaos.evidence import Evidence, Execution
from chaos.invariants import LATE_S, was_gone
from chaos.journal import Deed

STOP, PANIC, RELEASE = "studio_chat_stop_session", "studio_chat_panic", "studio_chat_release"
CLOCKS_S = 0.1  # between the database's clock and ours, which is the same, but read elsewhere


def counts_are_the_ledgers(evidence: Evidence) -> Iterator[str]:
    """Who was stopped had lived meanwhile; who lived through it was told as unconfirmed."""
    for deed in evidence.journal.orders(STOP, PANIC):
        counts = {name: deed.reply[f"{name}Count"] for name in ("aborted", "unconfirmed", "active")}  # type: ignore[index]
        named = list(_named(evidence, deed))
        span = (deed.sent_s - CLOCKS_S, deed.replied_s + CLOCKS_S)
        touched = [execution for execution in named if execution.lived_in(*span)]
        through = [execution for execution in named if execution.lived_through(deed.sent_s, deed.replied_s)]
        # One that was written off while its owner slept is really stopped only now.
        slept = [execution for execution in named if execution not in touched and evidence.disturbed(execution)]
        ended = [e for e in (*touched, *slept) if e.ended_s and e.ended_s <= span[1]]
        aborted = [execution for execution in ended if execution.row["status"] == "aborted"]
        if counts["aborted"] > len(aborted):
            yield f"more aborted than the ledger knows: {deed}; {_told(touched)}"
        if counts["unconfirmed"] > len(touched):
            yield f"more unconfirmed than lived: {deed}; {_told(touched)}"
        if counts["unconfirmed"] < len(through):
            yield f"told as ended and lived on: {deed}; {_told(through)}"
        counted = list(_counted(evidence, deed))
        if counts["active"] < sum(execution.lived_through(deed.sent_s, deed.replied_s) for execution in counted):
            yield f"fewer active than lived through it: {deed}; {_told(counted)}"
        if counts["active"] > sum(execution.lived_in(*span) for execution in counted):
            yield f"more active than lived: {deed}; {_told(counted)}"


def strangers_stop_nothing(evidence: Evidence) -> Iterator[str]:
    """A stop of another person's session finds nothing, unless the person may stop any."""
    for deed in evidence.journal.of_round():
        foreign = deed.type == STOP and deed.person != "op" and not deed.key.startswith(f"{deed.person}-")
        if foreign and deed.reply is not None and (deed.ok or deed.reply["code"] not in ("not_found", "internal")):
            yield f"a stranger was not refused: {deed}"


def orders_are_audited(evidence: Evidence) -> Iterator[str]:
    """Each panic, and each stop that stopped something, has its row."""
    for deed in evidence.journal.orders(STOP, PANIC):
        reply = deed.reply or {}
        if deed.type == STOP and not reply["abortedCount"] + reply["unconfirmedCount"]:
            continue
        verb = "panic" if deed.type == PANIC else "stop"
        if not any(
            (row["verb"], row["by"]) == (verb, deed.person)
            and (deed.type == PANIC or deed.key in row["target"])
            and deed.sent_s - CLOCKS_S <= row["at"].timestamp() <= deed.replied_s + CLOCKS_S
            for row in evidence.audit
        ):
            yield f"not audited: {deed}"


def nothing_starts_under_a_hold(evidence: Evidence) -> Iterator[str]:
    """From the reply to a panic with hold until somebody asks to release it, no run begins, and none asks its provider.

    Those that the panic could not confirm may ask until they hear of it.
    """
    for deed in evidence.journal.orders(PANIC):
        if not (deed.reply and deed.reply.get("hold")):
            continue
        until_s = _released_s(evidence, deed)
        for execution in _named(evidence, deed):
            if deed.replied_s < execution.began_s < until_s - CLOCKS_S:
                yield f"begun under a hold: {deed}; {execution}"
        if deed.reply["unconfirmedCount"]:
            continue
        keys = {execution.key for execution in _named(evidence, deed)}
        for record, key in evidence.records:
            arrived_s = record.arrived + evidence.offset_s
            asked = deed.replied_s + LATE_S + evidence.lag_s < arrived_s < until_s - CLOCKS_S
            if key in keys and asked and not was_gone(record):
                yield f"asked under a hold, at {arrived_s:.3f}: {record.id}; {deed}"


def _released_s(evidence: Evidence, panic: Deed) -> float:
    """When somebody first asked to release this panic's hold."""
    hold_id = panic.reply["hold"]["id"] if panic.reply else ""
    asked = [d.sent_s for d in evidence.journal.deeds if d.type == RELEASE and d.fields["holdId"] == hold_id]
    return min(asked, default=float("inf"))


def _named(evidence: Evidence, deed: Deed) -> Iterable[Execution]:
    """The executions that an order means, of those that began in this round."""
    if deed.type == PANIC:
        user = (deed.fields.get("scope") or {}).get("user")
        return evidence.of_user(user) if user else evidence.executions
    only = deed.fields.get("executionId")
    return (e for e in evidence.of_session(deed.key) if only in (None, e.id))


def _counted(evidence: Evidence, deed: Deed) -> Iterable[Execution]:
    """The executions that an order's reply counts as active: all, for those who may panic."""
    return evidence.executions if deed.person == "op" else evidence.of_user(deed.person)


def _told(executions: Iterable[Execution]) -> list[str]:
    return [str(execution) for execution in executions]
