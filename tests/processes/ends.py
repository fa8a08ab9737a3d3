"""The one end of an execution, as the frame, the page's object and the rows tell it: they must agree."""

from tests.client import Frame, StudioClient
from tests.processes.harness import Studio
from tests.provider import Record

ERRORS = {
    "session_stop": "Execução interrompida por Parar Sessão.",
    "panic_stop": "Execução interrompida por Pânico.",
    "timeout": "Timeout da execução atingido.",
    "user_interrupt": "Execução interrompida por nova mensagem.",
    "disconnect": "Execução interrompida por desconexão.",
    "shutdown": "Execução interrompida por desligamento do servidor.",
    "worker_lost": "Execução perdida: o processo responsável parou.",
    "deleted": "Execução interrompida: sessão excluída.",
}


async def agreed_end(studio: Studio, client: StudioClient, execution_id: str) -> Frame:
    """Wait for the result of a run that this client watched from its start. Return it, if all others tell the same."""
    result = await client.result(execution_id)
    snapshot = await client.subscribe(result["sessionKey"])
    [message] = [m for m in snapshot["messages"] if m["id"] == result["messageId"]]
    [stored] = studio.rows("SELECT * FROM chat_chatmessage WHERE id = ?", result["messageId"].replace("-", ""))
    record = studio.execution_row(execution_id)
    assert result["status"] == message["status"] == stored["status"] == record["status"]
    assert (result.get("abortReason") or "") == (message["abortReason"] or "") == (record["abort_reason"] or "")
    assert (result.get("timeoutKind") or "") == (message["timeoutKind"] or "") == (record["timeout_kind"] or "")
    assert (result.get("error") or "") == (message["error"] or "")
    assert result["ok"] == (result["status"] == "completed")
    assert result["text"] == message["text"] == client.text_of(execution_id)
    assert message["text"] == "".join(part["text"] for part in message["parts"] if part["kind"] == "text")
    if result["status"] == "aborted":
        assert result["error"] == ERRORS[result["abortReason"]]
    assert_whole_run(client, execution_id)
    return result


def assert_whole_run(client: StudioClient, execution_id: str) -> None:
    """The events of a run are numbered without holes, in the contract's order, with one result at the end."""
    events = client.run_events(execution_id)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    types = [event["type"].removeprefix("studio_chat_") for event in events]
    messages = [event["message"] for event in events if event["type"] == "studio_chat_message"]
    assert types[:2] == ["message", "message"]
    assert [message["role"] for message in messages[:2]] == ["user", "assistant"]
    assert messages[1]["status"] == "streaming"
    assert types[-2:] == ["message", "result"]
    assert messages[-1]["status"] != "streaming"
    assert types.count("result") == 1


def assert_stopped(reply: Frame) -> None:
    """A stop that was confirmed for exactly one execution, with nothing left."""
    assert reply["type"] == "studio_chat_stop_session_ok"
    counts = {name: reply[name] for name in ("ok", "abortedCount", "unconfirmedCount", "alreadyFinishedCount")}
    assert counts == {"ok": True, "abortedCount": 1, "unconfirmedCount": 0, "alreadyFinishedCount": 0}, reply
    assert reply["activeCount"] == 0, reply


def assert_closed_by_us(record: Record) -> None:
    assert record.end in ("client_closed", "client_reset"), record
