"""The registry is the collection of this process's live executions, and the contract's way to stop them."""

import pytest

from kernel.abort import AbortReason
from kernel.registry import Execution, ExecutionRegistry


@pytest.fixture
def registry() -> ExecutionRegistry:
    return ExecutionRegistry()


def test_registering_gives_the_controller_of_the_execution(registry: ExecutionRegistry) -> None:
    controller = registry.register("a", session_key="s", kind="title", user_id=7, model="m")
    execution = registry["a"]
    assert execution.controller is controller
    assert execution.signal is controller.signal
    assert (execution.session_key, execution.kind, execution.user_id, execution.model) == ("s", "title", 7, "m")


def test_an_id_is_registered_once(registry: ExecutionRegistry) -> None:
    first = registry.register("a")
    with pytest.raises(ValueError, match="'a' is registered already"):
        registry.register("a")
    assert registry["a"].controller is first


def test_it_is_a_collection(registry: ExecutionRegistry) -> None:
    registry.register("a", session_key="s")
    registry.register("b", session_key="t")
    a, b = registry["a"], registry["b"]
    assert len(registry) == 2
    assert list(registry) == [a, b]
    assert "a" in registry
    assert a in registry
    assert "c" not in registry
    assert Execution(id="c") not in registry
    assert registry.get("b") is b
    assert registry.get("c") is None
    assert registry.of_session("t") == [b]
    assert registry.of_session("u") == []


def test_what_is_unregistered_is_forgotten_and_its_id_is_free(registry: ExecutionRegistry) -> None:
    first = registry.register("a")
    registry.unregister("a")
    assert len(registry) == 0
    assert registry.get("a") is None
    assert registry.register("a") is not first


def test_unregistering_what_nobody_knows_is_silent(registry: ExecutionRegistry) -> None:
    registry.unregister("a")


def test_it_may_change_while_it_is_iterated(registry: ExecutionRegistry) -> None:
    for name in "abc":
        registry.register(name)
    for execution in registry:
        registry.unregister(execution.id)
    assert len(registry) == 0


def test_abort_session_ends_everything_of_the_session_and_nothing_else(registry: ExecutionRegistry) -> None:
    turn = registry.register("turn", session_key="s")
    title = registry.register("title", session_key="s", kind="title")
    other = registry.register("other", session_key="t")
    assert registry.abort_session("s", "session_stop", by="ann", source="web") == 2
    for controller in (turn, title):
        abort = controller.signal.abort
        assert abort is not None
        assert (abort.reason, abort.by, abort.source) == (AbortReason.SESSION_STOP, "ann", "web")
    assert not other.signal.aborted


def test_abort_all_ends_everything_and_counts_what_it_decided(registry: ExecutionRegistry) -> None:
    first, second, finished = (registry.register(name, session_key=name) for name in "abc")
    registry.abort_session("a", "session_stop")
    finished.finish()
    assert registry.abort_all("panic_stop") == 1
    assert first.signal.reason is AbortReason.SESSION_STOP
    assert second.signal.reason is AbortReason.PANIC_STOP
    assert not finished.signal.aborted


def test_a_listener_may_unregister_what_is_being_aborted(registry: ExecutionRegistry) -> None:
    controller = registry.register("a", session_key="s")
    controller.signal.listen(lambda _: registry.unregister("a"))
    assert registry.abort_all("panic_stop") == 1
    assert registry.abort_session("s", "session_stop") == 0
