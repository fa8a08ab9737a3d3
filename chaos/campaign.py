"""A campaign: rounds of operations and faults, each brought to rest and judged. The first that breaks ends it."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from chaos import invariants, logs, orders, words
from chaos.evidence import Evidence, gather
from chaos.faults import strike
from chaos.journal import Journal
from chaos.people import People
from chaos.plan import TABS, Round
from chaos.pulse import Pulse
from chaos.rest import Unrest, come_to_rest, release_all
from chaos.stage import Stage

CHECKS = (
    invariants.ends_are_written_once_and_alike,
    invariants.results_are_told_once_as_written,
    invariants.requests_belong_to_the_living,
    invariants.messages_are_sent_once,
    invariants.requests_are_answered_once,
    invariants.transcripts_can_be_read,
    words.text_is_what_the_provider_sent,
    words.text_is_all_that_was_seen,
    orders.counts_are_the_ledgers,
    orders.strangers_stop_nothing,
    orders.orders_are_audited,
    orders.nothing_starts_under_a_hold,
)


class Broken(AssertionError):
    """An invariant does not hold; the message has what, the operations and faults before it, and how to replay."""


@dataclass
class Tally:
    """What a campaign has done so far."""

    rounds: int = 0
    started_s: float = field(default_factory=time.monotonic)
    operations: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    starved: int = 0  # runs that were lost without a fault
    lost_replies: int = 0
    requests: int = 0

    def add(self, round_: Round, evidence: Evidence) -> None:
        self.rounds += 1
        self.operations.update(operation.verb for operation in round_.operations)
        self.faults.update(fault.kind for fault in evidence.journal.faults())
        self.ends.update(e.row["abort_reason"] or e.row["status"] for e in evidence.executions)
        self.starved += sum(not e.of_owner and not evidence.disturbed(e) for e in evidence.executions)
        self.lost_replies += sum(deed.reply is None for deed in evidence.journal.of_round())
        self.requests += len(evidence.records)

    def __str__(self) -> str:
        took_s = time.monotonic() - self.started_s
        total = self.operations.total()
        return "\n".join(
            (
                f"{total} operations in {self.rounds} rounds, {took_s:.0f} s, {total / took_s:.1f}/s: all held.",
                f"operations: {_told(self.operations)}",
                f"faults: {_told(self.faults)}",
                f"executions: {self.ends.total()}, ended as {_told(self.ends)}; lost without a fault: {self.starved}",
                f"requests to the provider: {self.requests}; replies lost with a socket: {self.lost_replies}",
            )
        )


class Campaign:
    """Plays rounds on a stage; sessions live on from one to the next."""

    def __init__(self, stage: Stage):
        self.tally = Tally()
        self._stage = stage
        self._journal = Journal()
        self._people = People(stage, self._journal)

    async def play(self, round_: Round) -> None:
        """One round, from the first socket to the last judgement. Raises `Broken`."""
        journal, stage, people = self._journal, self._stage, self._people
        journal.round = round_.seed, round_.number
        written = {worker: len(worker.log.read_bytes()) for worker in stage.workers}
        try:
            evidence = await self._live_through(round_)
            wrong = [f"{check.__name__}: {told}" for check in CHECKS for told in check(evidence)]
            wrong += [f"log: {told}" for told in logs.tell_of_no_bug(stage.workers, written, journal)]
        except Unrest as unrest:
            wrong = [f"rest: {unrest}"]
        finally:
            await people.leave()
        if wrong:
            raise Broken(_report(round_, journal, wrong))
        self.tally.add(round_, evidence)

    async def _live_through(self, round_: Round) -> Evidence:
        """Do all of it at once, bring it to rest, and gather what there is to be seen. Raises `Unrest`."""
        journal, stage, people = self._journal, self._stage, self._people
        since = datetime.now(UTC) - timedelta(milliseconds=1)
        first_record = len(stage.provider.records)
        async with Pulse() as pulse:
            await people.arrive()
            await release_all(stage, people)
            async with asyncio.TaskGroup() as everybody:
                for fault in round_.faults:
                    everybody.create_task(strike(fault, stage, journal))
                for number in range(len(TABS)):
                    everybody.create_task(people.act(round_, number))
            await come_to_rest(stage, journal, people, round_.rest)
        return await gather(stage, journal, people, since, first_record, pulse.worst_s)


def _report(round_: Round, journal: Journal, wrong: list[str]) -> str:
    operations = [f"  {deed}" for deed in journal.of_round() if deed.type != "studio_chat_subscribe"]
    return "\n".join(
        (
            f"seed {round_.seed}, round {round_.number} (rest by {round_.rest}): what does not hold:",
            *(f"* {told}" for told in wrong[:20]),
            f"({len(wrong)} in all)" if len(wrong) > 20 else "",
            "what was done, with its answers:",
            *operations,
            "what broke:",
            *(f"  {fault}" for fault in journal.faults()),
            f"Replay the round with: make chaos SEED={round_.seed} ROUND={round_.number}",
        )
    )


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {times}" for name, times in counts.most_common()) or "none"
