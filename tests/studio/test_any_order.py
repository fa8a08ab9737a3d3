"""Whatever people, providers and accidents do in whatever order: the promises of queue, Send now and stop hold.

Hypothesis writes stories of two people with a session each. After every deed the rows, the provider's requests and what
a socket was told are compared with what the contract says must have become of it.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pytest_django import Settings

from chat.models import ChatMessage, ChatSession
from chat.people import Person
from chat.turns import turns_of
from kernel.abort import AbortReason
from kernel.llm import catalog
from kernel.llm.model import Delta, Finished, ModelError, ModelEvent, ModelRequest
from kernel.models import ExecutionRecord
from kernel.worker import ThisWorker
from tests.chat.rows import make_user
from tests.client import Frame
from tests.kernel.conftest import worker as worker
from tests.kernel.live import db
from tests.kernel.rows import make_worker
from tests.provider_script import problems
from tests.studio.seat import Seat
from tests.waiting import LOOK_S, READY_TIMEOUT_S

INTERRUPTED, INCOMPLETE = "interrupted by the user", "is incomplete"
STORIES, DEEDS = 24, 20
_numbers = itertools.count(1)


class DrivenModel:
    """A model that says what the test tells it to, in the turn whose last message is `text`."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, ModelRequest]] = []
        self._open: dict[str, asyncio.Queue[ModelEvent | Exception]] = {}

    def answers(self, text: str) -> bool:
        return text in self._open

    def say(self, text: str, item: ModelEvent | Exception) -> None:
        self._open[text].put_nowait(item)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        text = request.messages[-1]["content"]
        self.requests.append((text, request))
        said = self._open[text] = asyncio.Queue()
        try:
            while True:
                item = await said.get()
                if isinstance(item, Exception):
                    raise item
                yield item
                if isinstance(item, Finished):
                    return
        finally:
            del self._open[text]


@dataclass(kw_only=True, repr=False)
class Desk:
    """One person's session as the contract says it must be. `said` is what was sent and how its answer ended."""

    seat: Seat
    key: str
    said: list[tuple[str, str]] = field(default_factory=list)
    queue: list[str] = field(default_factory=list)
    claims: set[str] = field(default_factory=set)  # messages whose client says that it interrupted
    notes: dict[str, str] = field(default_factory=dict)  # what the model must be told with each
    removed: set[str] = field(default_factory=set)
    sent_now: dict[str, Frame] = field(default_factory=dict)  # the first answer to Send now, by the item's id
    ended: dict[str, tuple[str, str]] = field(default_factory=dict)  # each end as it was first seen
    snapshot: Frame | None = None

    @property
    def live(self) -> str | None:
        return self.said[-1][0] if self.said and self.said[-1][1] == "streaming" else None

    def start(self, text: str, *, interrupts: bool) -> None:
        before = self.said[-1][1] if self.said else ""
        if before == "aborted" and (interrupts or text in self.claims):
            self.notes[text] = INTERRUPTED
        else:
            self.notes[text] = INCOMPLETE if before in ("aborted", "error") else ""
        self.said.append((text, "streaming"))

    def end(self, status: str) -> None:
        self.said[-1] = (self.said[-1][0], status)
        if status == "completed" and self.queue:
            self.start(self.queue.pop(0), interrupts=False)

    def send_at_once(self, text: str) -> None:
        """What Send now does."""
        interrupts = self.live is not None
        if interrupts:
            self.end("aborted")
        self.start(text, interrupts=interrupts)


@transaction.atomic
def _rows(key: str) -> dict[str, Any]:
    """The session as it stands, in one moment's picture."""
    session = ChatSession.objects.filter(key=key).first()
    rows = list(ChatMessage.objects.filter(session=session).order_by("id")) if session else []
    records = {record.pk: record for record in ExecutionRecord.objects.filter(session_key=key)}
    asked, answers = ([row for row in rows if row.role == role] for role in ("user", "assistant"))
    for answer in answers:
        status = records[answer.execution_id].status
        assert ("streaming" if status == "running" else status) == answer.status
    assert sum(record.status == "running" for record in records.values()) <= 1
    return {
        "said": [(ask.text, answer.status) for ask, answer in zip(asked, answers, strict=True)],
        "ended": {str(row.execution_id): (row.status, row.text) for row in answers if row.status != "streaming"},
        "queue": [(str(item.pk), item.text) for item in session.queue.in_order()] if session else [],
        "promised": session.queue.filter(promoted=True).exists() if session else False,
    }


class Stories:
    """The deeds that a story is made of: each is done, and the desks are told what must come of it."""

    def __init__(self, worker: ThisWorker, model: DrivenModel, people: dict[str, Person]):
        self.worker, self.model = worker, model
        number = next(_numbers)
        self.desks = [Desk(seat=Seat(worker, people[n]), key=f"story-{number}-{n}") for n in ("ann", "bob")]
        self.op = Seat(worker, people["op"])
        self.hold: str | None = None
        self.told: list[tuple[Any, ...]] = []
        self._texts = (f"message {number}.{n}" for n in itertools.count(1))
        self._asked = len(model.requests)

    # People

    async def send(self, desk: Desk, when_busy: str, claim: bool) -> None:
        text, busy = next(self._texts), desk.live is not None
        frame = {"sessionKey": desk.key, "text": text, "clientMessageId": text, "whenBusy": when_busy}
        reply = await desk.seat.call("send", **frame, interrupted=claim)
        if not busy and self.hold:
            assert (reply["ok"], reply["code"]) == (False, "held")
            return
        if busy and when_busy == "reject":
            assert (reply["ok"], reply["code"]) == (False, "conflict")
            return
        assert reply["ok"], reply
        desk.claims |= {text} if claim else set()
        if not busy:
            desk.start(text, interrupts=False)
        elif when_busy == "queue":
            desk.queue.append(text)
        else:
            assert reply["interrupted"]
            desk.send_at_once(text)
        assert reply["queued"] is (text in desk.queue)

    async def send_again(self, desk: Desk, pick: int) -> None:
        """A reply was lost, and the client sends the frame once more: nothing may come of it."""
        texts = [text for text, _ in desk.said] + desk.queue
        if texts:
            text = texts[pick % len(texts)]
            reply = await desk.seat.call("send", sessionKey=desk.key, text=text, clientMessageId=text)
            assert reply["ok"], reply
            assert reply["queued"] is (text in desk.queue)

    async def send_now(self, desk: Desk, pick: int) -> None:
        if not desk.queue:
            return
        item, text = await self._item(desk, pick)
        reply = await desk.seat.call("send_now", sessionKey=desk.key, queueId=item)
        if self.hold:
            assert (reply["ok"], reply["code"]) == (False, "held")
            return
        assert (reply["ok"], reply["interrupted"]) == (True, desk.live is not None)
        desk.queue.remove(text)
        desk.send_at_once(text)
        desk.sent_now[item] = reply

    async def send_now_again(self, desk: Desk, pick: int) -> None:
        if desk.sent_now:
            item, first = list(desk.sent_now.items())[pick % len(desk.sent_now)]
            reply = await desk.seat.call("send_now", sessionKey=desk.key, queueId=item)
            answers = [(r["ok"], r["interrupted"], r["executionId"]) for r in (first, reply)]
            assert answers[0] == answers[1]

    async def edit(self, desk: Desk, pick: int) -> None:
        if desk.queue:
            item, text = await self._item(desk, pick)
            better = next(self._texts)
            reply = await desk.seat.call("queue_edit", sessionKey=desk.key, queueId=item, text=better)
            desk.queue[desk.queue.index(text)] = better
            desk.claims |= {better} if text in desk.claims else set()
            desk.removed.add(text)
            assert [each["text"] for each in reply["queue"]] == desk.queue

    async def move(self, desk: Desk, pick: int, position: int) -> None:
        if desk.queue:
            item, text = await self._item(desk, pick)
            reply = await desk.seat.call("queue_move", sessionKey=desk.key, queueId=item, position=position)
            desk.queue.remove(text)
            desk.queue.insert(position, text)
            assert [each["text"] for each in reply["queue"]] == desk.queue

    async def remove(self, desk: Desk, pick: int) -> None:
        if desk.queue:
            item, text = await self._item(desk, pick)
            assert (await desk.seat.call("queue_remove", sessionKey=desk.key, queueId=item))["ok"]
            desk.queue.remove(text)
            desk.removed.add(text)

    async def stop(self, desk: Desk) -> None:
        reply = await desk.seat.call("stop_session", sessionKey=desk.key)
        if desk.said:
            live = desk.live is not None
            assert (reply["ok"], reply["abortedCount"], reply["unconfirmedCount"]) == (True, int(live), 0)
            if live:
                desk.end("aborted")

    async def panic(self, hold: bool) -> None:
        if hold and self.hold:
            return
        reply = await self.op.call("panic", hold=hold)
        live = [desk for desk in self.desks if desk.live is not None]
        assert (reply["ok"], reply["abortedCount"], reply["activeCount"]) == (True, len(live), 0)
        for desk in live:
            desk.end("aborted")
        if hold:
            self.hold = reply["hold"]["id"]
            assert reply["heldCount"] == sum(len(desk.queue) for desk in self.desks)

    async def release(self) -> None:
        if self.hold:
            assert (await self.op.call("release", holdId=self.hold))["released"]
            self.hold = None

    # Providers and accidents

    async def say(self, desk: Desk) -> None:
        if desk.live:
            since = len(desk.seat.frames)
            self.model.say(desk.live, Delta(kind="text", text="some words "))
            await desk.seat.wait(lambda f: f["type"] == "studio_chat_delta", since)

    async def finish(self, desk: Desk) -> None:
        if desk.live:
            self.model.say(desk.live, Finished(reason="stop"))
            desk.end("completed")

    async def fail(self, desk: Desk) -> None:
        if desk.live:
            self.model.say(desk.live, ModelError("The provider failed."))
            desk.end("error")

    async def time_out(self, desk: Desk) -> None:
        if desk.live:
            [execution] = self.worker.registry.of_session(desk.key)
            execution.controller.abort(AbortReason.TIMEOUT)
            desk.end("aborted")

    async def crash(self, desk: Desk) -> None:
        """The ledger says that the turn's owner is lost; then the owner hears of it."""
        if desk.live:
            [execution] = self.worker.registry.of_session(desk.key)

            def lose() -> list[str]:
                ExecutionRecord.objects.filter(pk=execution.id).update(worker=make_worker(lease_s=-1))
                ExecutionRecord.objects.settle_orphans()
                return [execution.id]

            await turns_of(self.worker).take_over(await db(lose))
            execution.controller.abort(AbortReason.WORKER_LOST, source="lease")
            await execution.ended.wait()
            desk.end("aborted")

    async def at_once(self, desk: Desk, first: str, second: str, pick: int) -> None:
        """Two things in the same instant. Which came first is not foretold, but nothing is lost or doubled by it."""
        if not (desk.live and desk.queue) or self.hold:
            return
        deeds: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "finish": lambda: self._finish(desk.live),
            "fail": lambda: self._fail(desk.live),
            "send": lambda: self._call_ok(desk, "send", text=late, clientMessageId=late),
            "send again": lambda: self._call_ok(desk, "send", text=late, clientMessageId=late),
            "interrupt": lambda: self._call_ok(desk, "send", text=later, clientMessageId=later, whenBusy="interrupt"),
            "send now": lambda: self._call_ok(desk, "send_now", queueId=item),
            "send now again": lambda: self._call_ok(desk, "send_now", queueId=item),
            "send another now": lambda: self._call_ok(desk, "send_now", queueId=other),
            "stop": lambda: self._call_ok(desk, "stop_session"),
        }
        late, later = next(self._texts), next(self._texts)
        (item, _), (other, _) = await self._item(desk, pick), await self._item(desk, pick + 1)
        waiting = {text for name, text in (("send", late), ("send again", late), ("interrupt", later))}
        await asyncio.gather(deeds[first](), deeds[second]())
        accepted = {late} if {first, second} & {"send", "send again"} else set()
        accepted |= {later} if "interrupt" in (first, second) else set()
        assert accepted <= waiting
        await self._adopt(desk, accepted)

    async def _call_ok(self, desk: Desk, name: str, **fields: Any) -> None:
        reply = await desk.seat.call(name, sessionKey=desk.key, **fields)
        assert reply["ok"], reply

    async def _finish(self, live: str | None) -> None:
        if live and self.model.answers(live):
            self.model.say(live, Finished(reason="stop"))

    async def _fail(self, live: str | None) -> None:
        if live and self.model.answers(live):
            self.model.say(live, ModelError("The provider failed."))

    async def _adopt(self, desk: Desk, accepted: set[str]) -> None:
        """Wait until the session rests, take over what became of it, and see that every message is there once."""
        before = sorted([*(text for text, _ in desk.said), *desk.queue, *accepted])
        rows = await self._until(desk, self._rests)
        assert sorted([*(text for text, _ in rows["said"]), *(text for _, text in rows["queue"])]) == before
        desk.said, desk.queue = rows["said"], [text for _, text in rows["queue"]]
        desk.notes.clear()

    def _rests(self, rows: dict[str, Any]) -> bool:
        """Nothing more happens by itself: it runs, or it stands still and may."""
        text, status = rows["said"][-1]
        if status == "streaming":
            return self.model.answers(text)
        return not rows["promised"] and not (status == "completed" and rows["queue"])

    async def _item(self, desk: Desk, pick: int) -> tuple[str, str]:
        queue = (await db(_rows, desk.key))["queue"]
        return queue[pick % len(queue)]

    # What must be true after each deed

    async def check(self) -> None:
        for desk in self.desks:
            if desk.said:
                await self._check(desk)
        self._check_requests()

    async def _check(self, desk: Desk) -> None:
        def is_as_told(rows: dict[str, Any]) -> bool:
            queue = [text for _, text in rows["queue"]]
            answered = desk.live is None or self.model.answers(desk.live)
            return (rows["said"], queue, rows["promised"], answered) == (desk.said, desk.queue, False, True)

        rows = await self._until(desk, is_as_told)
        for execution, end in rows["ended"].items():
            assert desk.ended.setdefault(execution, end) == end, "an end has changed"
            await desk.seat.result(execution)
        if desk.snapshot is None:
            desk.snapshot = await desk.seat.call("subscribe", sessionKey=desk.key)
        desk.snapshot = await desk.seat.assert_parity(desk.snapshot)

    def _check_requests(self) -> None:
        """Each message is asked for once at most, in a form that the strictest provider takes, with a note if true."""
        new = self.model.requests[self._asked :]
        texts = [text for text, _ in new]
        assert len(texts) == len(set(texts))
        for text, request in new:
            assert problems(request.messages) == []
            system = request.messages[0]["content"]
            for desk in self.desks:
                if text in desk.notes:
                    note = desk.notes[text]
                    assert ("interrupt" in system, INCOMPLETE in system) == (note == INTERRUPTED, note == INCOMPLETE)

    async def _until(self, desk: Desk, look: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        rows = await db(_rows, desk.key)
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                while not look(rows):
                    await asyncio.sleep(LOOK_S / 10)
                    rows = await db(_rows, desk.key)
        except TimeoutError:
            raise AssertionError(f"it is {rows}, and must be {desk.said}, {desk.queue}") from None
        return rows

    async def close(self) -> None:
        await self.release()
        for desk in self.desks:
            if desk.said:
                assert (await desk.seat.call("session_delete", sessionKey=desk.key))["ok"]
            results = [f["executionId"] for f in desk.seat.frames if f["type"] == "studio_chat_result"]
            assert len(results) == len(set(results)), "a result was told twice"
            desk.seat.leave()
        self.op.leave()


picks = st.integers(0, 3)
truths = st.booleans()
ANY = st.tuples()
SEND = st.tuples(st.sampled_from(["queue"] * 4 + ["interrupt", "reject"]), truths)
QUEUE = st.tuples(st.just("queue"), truths)
TOGETHER = ["finish", "fail", "send", "send again", "interrupt", "send now", "send now again"]
TOGETHER += ["send another now", "stop"]
TWO = st.tuples(st.sampled_from(TOGETHER), st.sampled_from(TOGETHER), picks)

# What may happen, how often, and with which arguments.
Deed = tuple[str, int, st.SearchStrategy[tuple[Any, ...]]]
Deeds = list[Deed]
ALWAYS: Deeds = [
    ("send", 1, SEND),
    ("send_again", 1, st.tuples(picks)),
    ("send_now_again", 2, st.tuples(picks)),
    ("stop", 1, ANY),
]
LIVE: Deeds = [(name, 1, ANY) for name in ("say", "fail", "time_out", "crash", "stop", "finish", "finish")]
LIVE += [("send", 4, QUEUE)]
IDLE: Deeds = [("send", 3, QUEUE)]
QUEUED: Deeds = [("send_now", 4, st.tuples(picks)), ("edit", 1, st.tuples(picks)), ("remove", 1, st.tuples(picks))]
QUEUED += [("move", 1, st.tuples(picks, picks))]
RACES: Deeds = [("at_once", 3, TWO)]
OPERATOR: Deeds = [("panic", 1, st.tuples(truths))]
HELD: Deeds = [("release", 4, ANY)]


def possible(stories: Stories) -> list[tuple[Deed, list[Desk]]]:
    """What may happen next, each as often as it weighs, and at whose desk."""
    choices: list[tuple[Deed, list[Desk]]] = [(each, []) for each in OPERATOR + (HELD if stories.hold else [])]
    for desk in stories.desks:
        deeds = ALWAYS + (LIVE if desk.live else IDLE) + (QUEUED if desk.queue else [])
        deeds += RACES if desk.live and desk.queue else []
        choices += [(each, [desk]) for each in deeds for _ in range(each[1])]
    return choices


@pytest.fixture
async def people(worker: ThisWorker) -> dict[str, Person]:
    def make() -> dict[str, Person]:
        op = make_user("op")
        op.is_superuser = True
        op.save()
        names = {user.username: user for user in (make_user("ann"), make_user("bob"), op)}
        return {n: Person(id=u.pk, name=n, may_panic=u.is_superuser) for n, u in names.items()}

    return await db(make)


@pytest.fixture
def model(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> DrivenModel:
    settings.STUDIO_MODEL = "test/model"
    settings.STUDIO_TITLE_MODEL = "off"
    model = DrivenModel()

    async def ready_model(_name: str) -> DrivenModel:
        return model

    monkeypatch.setattr(catalog, "ready_model", ready_model)
    # To know these is to load litellm.
    monkeypatch.setattr(catalog, "price", lambda *_: None)
    monkeypatch.setattr(catalog, "calls_tools", lambda _: False)
    return model


@pytest.fixture
def operators_worker(worker: ThisWorker, monkeypatch: pytest.MonkeyPatch) -> ThisWorker:
    """The worker of this loop, also to those who give an operator's orders."""
    monkeypatch.setattr("kernel.orders.this_worker", lambda: worker)
    return worker


@pytest.mark.timeout(600)
@settings(
    derandomize=True,
    phases=[Phase.generate],  # a story that fails is short enough to be read, and to shrink it takes minutes
    max_examples=STORIES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(fate=st.data())
async def test_in_whatever_order_things_happen_every_promise_holds(
    fate: st.DataObject, operators_worker: ThisWorker, model: DrivenModel, people: dict[str, Person]
) -> None:
    stories = Stories(operators_worker, model, people)
    try:
        for _ in range(DEEDS):
            choices = possible(stories)
            (name, _, arguments), at = choices[fate.draw(st.integers(0, len(choices) - 1))]
            values = fate.draw(arguments)
            stories.told.append((name, *(desk.key for desk in at), *values))
            await getattr(stories, name)(*at, *values)
            await stories.check()
    except BaseException as error:
        error.add_note(f"The story: {stories.told}")
        raise
    finally:
        await stories.close()
