"""A turn on its worker, with a scripted model: begun once, told in order, settled before it is told, then the next."""

import asyncio
from typing import Any

import pytest

from chat import admission, turns
from chat.admission import Queued, Repeated, Started
from chat.errors import Conflict, NotFound
from chat.models import ChatMessage
from kernel.abort import AbortReason
from kernel.events import Usage
from kernel.llm import catalog
from kernel.llm.model import Delta, Finished, ModelError
from kernel.models import ExecutionRecord, Hold, Intent
from kernel.worker import ThisWorker
from tests.chat.live_studio import Studio, hanging
from tests.chat.rows import outgoing, owner, settle, start
from tests.fakes import Gate, words
from tests.kernel.live import db
from tests.kernel.rows import aborted
from tests.waiting import READY_TIMEOUT_S


async def messages() -> list[tuple[str, str, str]]:
    rows = await db(lambda: list(ChatMessage.objects.order_by("id").values_list("role", "status", "text")))
    return [tuple(row) for row in rows]


# One turn


async def test_a_turn_is_told_from_its_first_event_to_its_result_and_stored(studio: Studio) -> None:
    studio.answers(words(3))
    started = await studio.send(request_id="r")
    result = await studio.result(started)
    assert (result["ok"], result["status"], result["text"], result["requestId"]) == (
        True,
        "completed",
        "w0 w1 w2 ",
        "r",
    )
    run = [frame for frame in studio.frames if frame.get("executionId")]
    assert [frame["seq"] for frame in run] == list(range(1, len(run) + 1))
    kinds = [frame["type"].removeprefix("studio_chat_") for frame in run]
    assert kinds[:2] == ["message", "message"]
    assert kinds[-2:] == ["message", "result"]
    assert kinds.count("result") == 1
    assert await messages() == [("user", "completed", "hello"), ("assistant", "completed", "w0 w1 w2 ")]
    assert len(studio.worker.registry) == 0
    assert list(studio.turns) == []


async def test_how_it_was_let_in_is_told_before_its_first_event(studio: Studio) -> None:
    studio.answers(words(1))
    seen: list[int] = []
    message = await db(outgoing)

    def admitted(how: Started) -> None:
        studio.follow(how.session)
        seen.append(len(studio.frames))

    await studio.turns.send(message, "queue", admitted)
    assert seen == [0]
    await studio.frame(lambda frame: frame["type"] == "studio_chat_result")


@pytest.mark.parametrize("tokens", [-1, 2**31, 2**70])
async def test_an_end_is_written_whatever_a_provider_has_counted(tokens: int, studio: Studio) -> None:
    studio.answers([Delta(kind="text", text="a"), Finished(reason="stop", usage=Usage(input_tokens=tokens))])
    result = await studio.result(await studio.send())
    assert (result["status"], result["text"]) == ("completed", "a")
    assert 0 <= result["usage"]["inputTokens"] < 2**31


async def test_an_end_is_told_only_when_it_is_written(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    studio.answers(words(1))
    gate, loop = Gate(), asyncio.get_running_loop()
    write = turns.write_end

    def held(*args: Any) -> Any:
        asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(READY_TIMEOUT_S)
        return write(*args)

    monkeypatch.setattr(turns, "write_end", held)
    started = await studio.send()
    await gate.reached.wait()
    assert studio.of("result") == []
    assert {frame["message"]["status"] for frame in studio.of("message")} == {"completed", "streaming"}
    gate.open()
    await studio.result(started)
    assert (await messages())[-1][1] == "completed"


async def test_a_session_whose_next_turn_began_before_the_end_was_told_is_not_said_to_rest(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, gate = hanging()
    studio.answers(words(1), script)
    written, loop = Gate(), asyncio.get_running_loop()
    write = turns.write_end

    def slow_to_return(*args: Any) -> Any:
        end = write(*args)
        asyncio.run_coroutine_threadsafe(written.wait(), loop).result(READY_TIMEOUT_S)
        return end

    monkeypatch.setattr(turns, "write_end", slow_to_return)
    started = await studio.send()
    await written.reached.wait()
    assert isinstance(await studio.send("next"), Started)
    await gate.reached.wait()
    written.open()
    await studio.result(started)
    assert studio.of("session")[-1]["session"]["state"] == "running"
    studio.worker.registry.abort_session("s", "session_stop")


async def test_what_was_queued_too_late_for_the_end_to_see_it_is_sent(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL an admission under way takes the turn for live while its end is being committed."""
    studio.answers(words(1), words(2))
    started = await studio.send()
    await studio.result(started)
    still_live, look = iter([started.record]), admission.live_turn
    monkeypatch.setattr(admission, "live_turn", lambda session: next(still_live, None) or look(session))
    assert isinstance(await studio.send("late"), Queued)
    await studio.frame(lambda f: f["type"] == "studio_chat_result" and f["text"] == "w0 w1 ")


async def test_a_stop_keeps_what_had_arrived_and_closes_the_model(studio: Studio) -> None:
    script, gate = hanging()
    studio.answers(script)
    started = await studio.send()
    await gate.reached.wait()
    studio.execution(started).controller.abort("session_stop", by="ann", source="web")
    result = await studio.result(started)
    assert (result["status"], result["abortReason"], result["text"]) == ("aborted", "session_stop", "some words")
    assert result["error"] == "Execução interrompida por Parar Sessão."
    assert (result["stop"]["by"], result["stop"]["source"]) == ("ann", "web")
    assert result["usage"]["estimated"]
    assert studio.model.open == 0
    assert (await messages())[-1] == ("assistant", "aborted", "some words")
    assert "".join(delta["text"] for delta in studio.of("delta")) == "some words"
    assert any(each["phase"] == "stopping" for each in studio.of("progress"))


async def test_a_providers_failure_is_an_error_with_what_had_arrived(studio: Studio) -> None:
    studio.answers([Delta(kind="text", text="some"), ModelError("The provider failed.")])
    started = await studio.send()
    result = await studio.result(started)
    assert (result["status"], result["error"], result["text"]) == ("error", "The provider failed.", "some")
    assert "abortReason" not in result


async def test_a_message_that_is_refused_leaves_nothing_registered(studio: Studio) -> None:
    script, gate = hanging()
    studio.answers(script)
    await studio.send()
    await gate.reached.wait()
    for user, when_busy, refusal in (("bob", "queue", NotFound), ("ann", "reject", Conflict)):
        with pytest.raises(refusal):
            await studio.send(user=user, when_busy=when_busy)
    assert len(studio.worker.registry) == 1


async def test_a_draining_worker_lets_nothing_in(studio: Studio) -> None:
    studio.worker.draining = True
    with pytest.raises(Conflict, match="shutting down"):
        await studio.send()
    assert await messages() == []
    assert len(studio.worker.registry) == 0


async def test_a_stop_while_the_message_is_being_admitted_is_not_lost(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    studio.answers(words(3))
    admit = admission.admit
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()

    def slow(*args: Any) -> Any:
        asyncio.run_coroutine_threadsafe(stopped.wait(), loop).result(READY_TIMEOUT_S)
        return admit(*args)

    monkeypatch.setattr(admission, "admit", slow)
    sending = asyncio.create_task(studio.send())
    async with asyncio.timeout(READY_TIMEOUT_S):
        while not len(studio.worker.registry):
            await asyncio.sleep(0)
    assert studio.worker.registry.abort_session("s", "session_stop") == 1
    stopped.set()
    result = await studio.result(await sending)
    assert result["abortReason"] == "session_stop"
    assert studio.model.requests == []


@pytest.mark.parametrize("how", ["an order", "a hold"])
async def test_what_nobody_told_the_run_is_found_before_its_first_step(
    how: str, studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    studio.answers(words(3))
    gate, ready_model = Gate(), catalog.ready_model

    async def late_model(name: str) -> Any:
        await gate.wait()
        return await ready_model(name)

    async def deaf(_worker: ThisWorker) -> None:
        """The poll finds nothing: what is found is found by the run itself."""

    def act() -> None:
        if how == "an order":
            ExecutionRecord.objects.order(Intent(reason=AbortReason.PANIC_STOP, by="bob", source="panic"))
        else:
            Hold.objects.create(by="bob")

    monkeypatch.setattr(ThisWorker, "obey", deaf)
    monkeypatch.setattr(catalog, "ready_model", late_model)
    started = await studio.send()
    await gate.reached.wait()
    await db(act)
    gate.open()
    result = await studio.result(started)
    assert (result["abortReason"], result["stop"]["by"]) == ("panic_stop", "bob")
    assert studio.model.requests == []


async def test_an_end_that_another_worker_wrote_is_told_whole_and_without_a_number(studio: Studio) -> None:
    script, gate = hanging()
    studio.answers(script)
    started = await studio.send()
    await gate.reached.wait()
    other = (await db(owner)).worker_id

    def take_over() -> None:
        ExecutionRecord.objects.filter(pk=started.record.pk).update(worker_id=other)
        ExecutionRecord.objects.settle(str(started.record.pk), aborted("worker_lost"), other)

    await db(take_over)
    studio.execution(started).controller.abort("session_stop")
    result = await studio.result(started)
    assert (result["seq"], result["abortReason"]) == (None, "worker_lost")
    assert len(studio.worker.registry) == 0


async def test_of_a_turn_whose_owner_was_lost_before_it_told_of_it_the_persons_message_is_told_too(
    studio: Studio,
) -> None:
    lost = await db(start)
    studio.follow(lost.session)
    await db(lambda: settle(lost, aborted("worker_lost")))
    await studio.turns.announce_foreign([str(lost.record.pk)])
    run = [frame for frame in studio.frames if frame.get("executionId")]
    told = [(frame["type"], frame["seq"], frame.get("message", {}).get("role")) for frame in run]
    assert told == [
        ("studio_chat_message", None, "user"),
        ("studio_chat_message", None, "assistant"),
        ("studio_chat_result", None, None),
    ]
    assert run[0]["message"]["text"] == "hello"


# The queue


async def test_after_a_clean_end_the_next_message_is_sent_by_itself(studio: Studio) -> None:
    script, gate = hanging()
    studio.answers([*script, Finished(reason="stop")], words(1))
    await studio.send("first")
    await gate.reached.wait()
    queued = await studio.send("second")
    assert isinstance(queued, Queued)
    assert [item["text"] for item in studio.of("queue")[-1]["queue"]] == ["second"]
    gate.open()
    await studio.frame(lambda f: f["type"] == "studio_chat_message" and f["message"]["text"] == "second")
    await studio.frame(lambda f: f["type"] == "studio_chat_result" and f["text"] == "w0 ")
    assert studio.of("queue")[-1]["queue"] == []
    assert [text for role, _, text in await messages() if role == "user"] == ["first", "second"]


@pytest.mark.parametrize("reason", ["session_stop", "panic_stop", "timeout", "disconnect"])
async def test_after_any_other_end_the_queue_stays_as_it_is(reason: str, studio: Studio) -> None:
    script, gate = hanging()
    studio.answers(script)
    started = await studio.send("first")
    await gate.reached.wait()
    queued = await studio.send("second")
    studio.execution(started).controller.abort(reason)
    await studio.result(started)
    await asyncio.sleep(0)
    assert [item.pk for item in await db(lambda: list(queued.session.queue.all()))] == [queued.item.pk]
    assert len(studio.model.requests) == 1


async def test_send_now_interrupts_and_is_sent_next_with_the_note(studio: Studio) -> None:
    script, gate = hanging()
    studio.answers(script, words(1))
    started = await studio.send("first")
    await gate.reached.wait()
    await studio.send("waits")
    queued = await studio.send("now")
    sent = await studio.send_now(queued.item.pk)
    assert sent.interrupts == str(started.record.pk)
    became = await studio.turns.started_from(queued.item.pk, READY_TIMEOUT_S)
    assert became is not None
    result = await studio.result(started)
    assert (result["abortReason"], result["text"]) == ("user_interrupt", "some words")
    await studio.frame(lambda f: f["type"] == "studio_chat_result" and f["executionId"] == became["executionId"])
    system = studio.model.requests[1].messages[0]["content"]
    assert "interrupted" in system
    assert studio.model.requests[1].messages[-1]["content"] == "now"
    assert {"role": "assistant", "content": "some words"} in studio.model.requests[1].messages


async def test_interrupt_is_the_same_in_one_command(studio: Studio) -> None:
    script, gate = hanging()
    studio.answers(script, words(1))
    started = await studio.send("first")
    await gate.reached.wait()
    queued = await studio.send("now", when_busy="interrupt")
    assert queued.interrupts == str(started.record.pk)
    assert (await studio.result(started))["abortReason"] == "user_interrupt"
    await studio.frame(lambda f: f["type"] == "studio_chat_result" and f["text"] == "w0 ")
    assert studio.model.requests[1].messages[-1]["content"] == "now"


async def test_what_never_starts_is_not_waited_for_for_ever(studio: Studio) -> None:
    assert await studio.turns.started_from(999, 0.01) is None


async def test_the_same_message_again_starts_nothing(studio: Studio) -> None:
    studio.answers(words(1))
    started = await studio.send(client_message_id="c")
    await studio.result(started)
    assert isinstance(await studio.send(client_message_id="c"), Repeated)
    assert len(studio.model.requests) == 1
    assert len(studio.worker.registry) == 0
