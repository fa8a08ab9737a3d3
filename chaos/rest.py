"""From the end of a round to a state that can be judged: nothing broken, nothing running, nothing able to start.

Every wait is on a state, and its bound is there to fail by. In the end a hold is on, so that what is judged stands
still.
"""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

from chaos.journal import Deed, Journal
from chaos.people import People
from chaos.plan import LEASE_S, TABS
from chaos.stage import Stage
from chaos.tabs import Tab
from tests import reducer

LOOK_S = 0.1
# What has not come to rest by then never will. Workers are well by now, and runs have a limit of their own.
GIVE_UP_S = 90.0
PAGE = 50  # messages in a snapshot
# Orders to the provider that never come to an end by themselves, or not soon.
ENDLESS = ("n=3000", "hang=", "=inf", '"seconds":480', "hangargs=", "after=30")

LIVE = "SELECT session_key FROM kernel_executionrecord WHERE status = 'running'"
WAITING = """
    SELECT session.key FROM chat_chatsession session
    JOIN chat_chatmessage answer ON answer.id =
        (SELECT max(id) FROM chat_chatmessage WHERE session_id = session.id AND role = 'assistant')
    JOIN chat_queuedmessage head ON head.id =
        (SELECT id FROM chat_queuedmessage WHERE session_id = session.id ORDER BY position, id LIMIT 1)
    WHERE answer.status = 'completed' AND head.editing_until IS NULL
"""


class Unrest(Exception):
    """Something did not come to rest; the message says what."""


async def come_to_rest(stage: Stage, journal: Journal, people: People, how: str) -> None:
    """Mend everything, bring everything to its end in this way, and put a hold on. Raises `Unrest`."""
    await stage.heal()
    for tab in people.slow:
        tab.client.socket.transport.resume_reading()
    for tab in people.tabs:
        tab.operation = -1
    operator = people.tabs[TABS.index("op")]
    await _release_all(stage, operator)
    await _settle_sends(journal, people)
    await _WAYS[how](stage, people, operator)
    await _hold(operator)
    await _until_still(stage)
    await _until_all_replied(people)
    await _until_all_show_the_same(stage, people)


async def release_all(stage: Stage, people: People) -> None:
    await _release_all(stage, people.tabs[TABS.index("op")])


async def _release_all(stage: Stage, operator: Tab) -> None:
    while holds := await stage.rows("SELECT id FROM kernel_hold WHERE released_at IS NULL"):
        for row in holds:
            await operator.call("studio_chat_release", "", holdId=str(row["id"]))


async def _settle_sends(journal: Journal, people: People) -> None:
    """What was sent and never answered is sent again, as a page does, until it is."""
    for sent in journal.sent.values():
        if not sent.settled and sent.key not in journal.deleted:
            tab = next(tab for tab in people.tabs if tab.person == sent.person)
            await people.send(tab, sent)
            if not sent.settled:
                raise Unrest(f"no answer to {sent.id} with everything mended: {[str(deed) for deed in sent.tries]}")


async def _drain(stage: Stage, people: People, operator: Tab) -> None:
    """Let everything come to its own end, and stop only what has none."""
    flows = not people.journal.faults() and not any(people.journal.orders("studio_chat_panic"))
    give_up = _deadline()
    while live := await _running(stage) or (flows and await _waiting(stage)):
        if time.monotonic() > give_up:
            raise Unrest(f"these do not end, or their queue does not flow: {live}")
        for key in await _endless(stage, live):
            await _stop(people, key)
        await asyncio.sleep(LOOK_S)


async def _running(stage: Stage) -> list[str]:
    return [row["session_key"] for row in await stage.rows(LIVE)]


async def _waiting(stage: Stage) -> list[str]:
    """Sessions whose queue should flow: the last answer ended cleanly, and nobody has the head in hand."""
    return [row["key"] for row in await stage.rows(WAITING)]


async def _endless(stage: Stage, keys: list[str]) -> list[str]:
    """Those whose last message has ordered an answer without an end."""
    texts = await asyncio.gather(*(stage.rows(LAST_TEXT, key) for key in keys))
    return [key for key, rows in zip(keys, texts, strict=True) if any(word in rows[0]["text"] for word in ENDLESS)]


LAST_TEXT = """
    SELECT coalesce((SELECT message.text FROM chat_chatmessage message
    JOIN chat_chatsession session ON session.id = message.session_id
    WHERE session.key = ? AND message.role = 'user' ORDER BY message.id DESC LIMIT 1), '') AS text
"""


async def _stop_each(stage: Stage, people: People, operator: Tab) -> None:
    """Each person stops each of their sessions, until nothing runs."""
    give_up = _deadline()
    while live := await _running(stage):
        if time.monotonic() > give_up:
            raise Unrest(f"these do not stop: {live}")
        for key in live:
            await _stop(people, key)


async def _panic(stage: Stage, people: People, operator: Tab) -> None:
    await _panic_until_empty(operator, hold=False)


async def _hold(operator: Tab) -> None:
    await _panic_until_empty(operator, hold=True)


_WAYS = {"drain": _drain, "stop": _stop_each, "panic": _panic}


async def _panic_until_empty(operator: Tab, *, hold: bool) -> None:
    give_up = _deadline()
    while True:
        deed = await operator.call("studio_chat_panic", "", hold=hold, reason="rest")
        if deed.ok and deed.reply and deed.reply["unconfirmedCount"] == deed.reply["activeCount"] == 0:
            return
        if deed.ok and deed.reply and not hold and deed.reply["unconfirmedCount"] == 0:
            return  # what came after it is not its business
        if time.monotonic() > give_up:
            raise Unrest(f"a panic does not end everything: {deed}")


async def _stop(people: People, key: str) -> Deed:
    tab = next(tab for tab in people.tabs if key.startswith(f"{tab.person}-"))
    return await tab.call("studio_chat_stop_session", key)


async def _until_still(stage: Stage) -> None:
    """No execution lives, no answer streams, no connection to the provider is open."""
    give_up = _deadline()
    while True:
        live = [*await stage.rows(LIVE)]
        streaming = await stage.rows("SELECT id FROM chat_chatmessage WHERE status = 'streaming'")
        open_still = [record.id for record in stage.provider.open_requests()]
        if not live and not streaming and not open_still:
            return
        if time.monotonic() > give_up:
            raise Unrest(f"under a hold: live {live}, streaming {streaming}, connections to the provider {open_still}")
        await asyncio.sleep(LOOK_S)


async def _until_all_replied(people: People) -> None:
    """A socket that is still open has an answer to everything it was asked."""
    for tab in people.all_tabs():
        if tab.client.close_code is None:
            try:
                await tab.all_replied()
            except TimeoutError:
                raise Unrest(f"a tab of {tab.person} was never answered: {tab.unanswered()}") from None
            except ConnectionError:
                pass  # closed meanwhile: a slow one


async def _until_all_show_the_same(stage: Stage, people: People) -> None:
    """What each tab shows becomes what a fresh one at another worker shows."""
    for person in sorted(set(TABS)):
        tabs = [tab for tab in people.all_tabs() if tab.person == person and tab.client.close_code is None]
        fresh = Tab(stage, people.journal, person, 0)
        try:
            # A deleted session's key may be used again: who followed the old one knows that it is gone, and no more.
            for key in sorted({key for tab in tabs for key in tab.keys} - people.journal.deleted):
                await _until_shown(fresh, key, [tab for tab in tabs if key in tab.keys])
        finally:
            await fresh.close()


async def _until_shown(fresh: Tab, key: str, tabs: list[Tab]) -> None:
    give_up = _deadline()
    await fresh.open()
    if not await fresh.follow(key):
        return  # deleted
    for tab in tabs:
        while (difference := await _difference(tab, fresh, key)) is not None:
            if time.monotonic() > give_up:
                raise Unrest(f"a tab of {tab.person} shows {key} otherwise than a fresh one: {difference}")
            await asyncio.sleep(LOOK_S)


async def _difference(tab: Tab, fresh: Tab, key: str) -> str | None:
    """What a tab shows otherwise than the fresh one. A hole in its numbers makes it subscribe again."""
    if tab.client.close_code is not None:
        return None  # closed for not keeping up: it shows nothing any more
    try:
        seen, wanted = tab.shown(key), fresh.shown(key)
    except reducer.Resync:
        await tab.follow(key)
        return "a hole"
    # A tab that has been open for longer may hold older messages than the fresh one's last page.
    if len(wanted["messages"]) == PAGE:
        seen["messages"] = seen["messages"][-PAGE:]
    return next(_differences(seen, wanted, ""), None)


def _differences(seen: Any, wanted: Any, path: str) -> Iterator[str]:
    if isinstance(seen, dict) and isinstance(wanted, dict):
        for name in {**seen, **wanted}:
            yield from _differences(seen.get(name), wanted.get(name), f"{path}.{name}")
    elif isinstance(seen, list) and isinstance(wanted, list) and len(seen) == len(wanted):
        for index, pair in enumerate(zip(seen, wanted, strict=True)):
            yield from _differences(*pair, f"{path}[{index}]")
    elif seen != wanted:
        yield f"{path} is {_shorter(seen)} instead of {_shorter(wanted)}"


def _shorter(value: Any) -> str:
    """A list of things by their ids; the end of a long text."""
    if isinstance(value, list):
        return f"{len(value)} things {[thing.get('id') for thing in value]}"
    return repr(value) if len(repr(value)) < 200 else f"…{value!r}"[-200:]


def _deadline() -> float:
    return time.monotonic() + LEASE_S + GIVE_UP_S
