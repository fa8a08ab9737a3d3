"""What a person does in a tab: each operation of the plan, with what there is to do it to when its time comes."""

import asyncio
from collections.abc import Awaitable, Callable

from chaos.journal import SEND, Deed, Frame, Journal, Sent
from chaos.plan import SLOTS, TABS, Operation, Round
from chaos.stage import Stage
from chaos.tabs import Tab
from tests import reducer
from tests.processes.harness import MODEL
from tests.provider_script import directive

TRIES = 3


class People:
    """All tabs of a round, and what each person knows across rounds: the keys of the sessions."""

    def __init__(self, stage: Stage, journal: Journal):
        self._stage, self.journal = stage, journal
        self._generation: dict[tuple[str, int], int] = {}
        self.tabs: list[Tab] = []
        self.extra: list[Tab] = []
        self.slow: list[Tab] = []

    async def arrive(self) -> None:
        """Everybody opens tabs, on all workers, and follows what there is."""
        self.tabs = [Tab(self._stage, self.journal, person, number) for number, person in enumerate(TABS)]
        self.extra, self.slow = [], []
        for tab in self.tabs:
            await tab.open()
            for slot in range(SLOTS):
                await tab.follow(self.key(tab.person, slot))

    async def leave(self) -> None:
        await asyncio.gather(*(tab.close() for tab in self.all_tabs()))

    def all_tabs(self) -> list[Tab]:
        return [*self.tabs, *self.extra, *self.slow]

    def key(self, person: str, slot: int) -> str:
        return f"{person}-{slot}-{self._generation.get((person, slot), 0)}"

    async def act(self, round_: Round, number: int) -> None:
        """Do all operations of this tab, one after the other."""
        for operation in round_.of_tab(number):
            await asyncio.sleep(operation.pause_s)
            tab = self.tabs[number]
            tab.operation = operation.number
            await _Doing(self, self._stage, self.journal, tab, operation).do()

    def renew(self, person: str, slot: int) -> None:
        """The session was deleted: its slot gets another."""
        self._generation[person, slot] = self._generation.get((person, slot), 0) + 1

    async def send(self, tab: Tab, sent: Sent, when_busy: str = "queue", tries: int = TRIES) -> Deed:
        """Send it, and again under the same id while no answer comes."""
        for _ in range(tries):
            fields = {"text": sent.text, "clientMessageId": sent.id, "whenBusy": when_busy}
            deed = await tab.call(SEND, sent.key, **fields)
            sent.tries.append(deed)
            if deed.certain:
                break
        return deed


class _Doing:
    """One operation under way."""

    def __init__(self, people: People, stage: Stage, journal: Journal, tab: Tab, operation: Operation):
        self._people, self._stage, self._journal, self._tab, self._operation = people, stage, journal, tab, operation
        self._key = people.key(tab.person, operation.slot)

    async def do(self) -> None:
        verb = self._operation.verb
        doing: Callable[[], Awaitable[object]] = getattr(self, f"_{verb}")
        await doing()

    # Sending

    async def _send(self) -> None:
        await self._send_when_busy("queue")

    async def _send_interrupt(self) -> None:
        await self._send_when_busy("interrupt")

    async def _send_reject(self) -> None:
        await self._send_when_busy("reject")

    async def _send_when_busy(self, when_busy: str) -> None:
        id_, text = self._text()
        sent = self._journal.sent[id_] = Sent(id=id_, person=self._tab.person, key=self._key, text=text)
        await self._people.send(self._tab, sent, when_busy)
        if self._key not in self._tab.keys:
            await self._tab.follow(self._key)

    async def _resend(self) -> None:
        if message := self._last_message("user"):
            _, text = self._text()
            await self._call("studio_chat_resend", messageId=message["id"], text=text)

    async def _continue(self) -> None:
        if message := self._last_message("assistant"):
            await self._call("studio_chat_continue", messageId=message["id"])

    async def _regenerate(self) -> None:
        if message := self._last_message("assistant"):
            await self._call("studio_chat_regenerate", messageId=message["id"])

    def _text(self) -> tuple[str, str]:
        """A new name for the provider's requests, and the message that orders its answer: no two answers are alike."""
        seed, number = self._journal.round
        id_ = f"s{seed}r{number}o{self._operation.number}"
        self._journal.key_of[id_] = self._key
        return id_, directive(id=id_, word=f"{id_}-", strict=1, **self._operation.orders)

    # Stopping

    async def _stop(self) -> None:
        await self._call("studio_chat_stop_session")

    async def _stop_execution(self) -> None:
        state = self._shown()
        answers = [message for message in state["messages"] if message["role"] == "assistant"] if state else []
        if answers:
            await self._call("studio_chat_stop_session", executionId=answers[-1]["executionId"])

    async def _stop_foreign(self) -> None:
        other = "bob" if self._tab.person == "ann" else "ann"
        await self._tab.call("studio_chat_stop_session", self._people.key(other, self._operation.slot))

    async def _panic(self) -> None:
        await self._tab.call("studio_chat_panic", "", reason="chaos")

    async def _panic_hold(self) -> None:
        await self._tab.call("studio_chat_panic", "", hold=True, reason="chaos")

    async def _panic_scope(self) -> None:
        scope = {"user": "ann"} if self._operation.pick < 0.7 else {"model": MODEL}
        await self._tab.call("studio_chat_panic", "", hold=self._operation.pick < 0.4, scope=scope)

    async def _release(self) -> None:
        state = self._shown()
        for hold in state["holds"] if state else []:
            await self._tab.call("studio_chat_release", "", holdId=hold["id"])

    # The queue

    async def _send_now(self) -> None:
        if item := self._item():
            await self._call("studio_chat_send_now", queueId=item["id"])

    async def _send_now_twice(self) -> None:
        if item := self._item():
            await asyncio.gather(*(self._call("studio_chat_send_now", queueId=item["id"]) for _ in range(2)))

    async def _queue_edit(self) -> None:
        if item := self._item():
            _, text = self._text()
            await self._call("studio_chat_queue_edit", queueId=item["id"], text=text)

    async def _queue_remove(self) -> None:
        if item := self._item():
            deed = await self._call("studio_chat_queue_remove", queueId=item["id"])
            if deed.ok or not deed.certain:
                self._journal.removed.add(item["clientMessageId"])

    async def _queue_move(self) -> None:
        if item := self._item():
            await self._call("studio_chat_queue_move", queueId=item["id"], position=int(self._operation.pick * 4))

    async def _queue_hold(self) -> None:
        if item := self._item():
            await self._call("studio_chat_queue_hold", queueId=item["id"], editing=True)

    async def _queue_let_go(self) -> None:
        if item := self._item():
            await self._call("studio_chat_queue_hold", queueId=item["id"], editing=False)

    # The tab and the sessions

    async def _reload(self) -> None:
        await self._tab.client.close()
        await self._tab.open(self._operation.worker)

    async def _vanish(self) -> None:
        self._tab.client.vanish()
        await self._tab.open(self._operation.worker)

    async def _second_tab(self) -> None:
        self._people.extra.append(await self._another_tab())

    async def _slow_tab(self) -> None:
        """A tab that follows everything and reads nothing until the round ends."""
        tab = await self._another_tab()
        tab.client.socket.transport.pause_reading()
        self._people.slow.append(tab)

    async def _another_tab(self) -> Tab:
        tab = Tab(self._stage, self._journal, self._tab.person, self._operation.worker)
        await tab.open()
        for key in self._tab.keys:
            await tab.follow(key)
        return tab

    async def _rename(self) -> None:
        await self._call("studio_chat_session_rename", title=f"Title {self._operation.number}")

    async def _delete(self) -> None:
        if self._key not in self._tab.keys:
            return
        self._journal.deleted.add(self._key)
        await self._call("studio_chat_session_delete")
        self._people.renew(self._tab.person, self._operation.slot)
        self._tab.forget(self._key)

    async def _list(self) -> None:
        await self._tab.call("studio_chat_sessions", "")

    # What there is

    async def _call(self, type_: str, **fields: object) -> Deed:
        return await self._tab.call(type_, self._key, **fields)

    def _shown(self) -> reducer.State | None:
        if self._key not in self._tab.keys:
            return None
        try:
            return self._tab.shown(self._key)
        except reducer.Resync:
            return None

    def _item(self) -> Frame | None:
        state = self._shown()
        return self._pick(state["queue"]) if state else None

    def _last_message(self, role: str) -> Frame | None:
        state = self._shown()
        messages = [message for message in state["messages"] if message["role"] == role] if state else []
        return messages[-1] if messages else None

    def _pick(self, things: list[Frame]) -> Frame | None:
        return things[int(self._operation.pick * len(things))] if things else None
