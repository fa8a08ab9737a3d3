"""Defining tools and gathering them."""

import re
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from kernel.abort import AbortSignal
from kernel.tools import RunContext, Tool, Toolbox, ToolDefinitionError, tool


class TestDefining:
    def test_the_hints_and_the_docstring_make_the_spec(self) -> None:
        @tool
        def search(query: str, kind: Literal["page", "file"] = "page", limit: Annotated[int, Field(ge=1)] = 5) -> str:
            """Search the archive.

            Args:
                query: What to look for,
                    in any language.
                limit (int): How many to return.

            Returns the best first.
            """
            return query

        assert search.spec == {
            "type": "function",
            "function": {
                "name": "search",
                "description": "Search the archive.\n\nReturns the best first.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "query": {"type": "string", "description": "What to look for, in any language."},
                        "kind": {"type": "string", "enum": ["page", "file"], "default": "page"},
                        "limit": {"type": "integer", "minimum": 1, "default": 5, "description": "How many to return."},
                    },
                    "required": ["query"],
                    "additionalProperties": False,
                },
            },
        }

    def test_a_tool_without_parameters_has_an_empty_object_for_a_schema(self) -> None:
        @tool
        def now() -> str:
            return "now"

        assert now.schema == {"type": "object", "properties": {}, "additionalProperties": False}

    def test_a_decorated_function_is_still_called_as_one(self) -> None:
        @tool(name="plus", timeout_s=3)
        def add(a: int, b: int = 1) -> int:
            return a + b

        assert (add(2), add.name, add.timeout_s) == (3, "plus", 3)

    def test_the_signal_is_not_in_the_schema(self) -> None:
        @tool
        async def fetch(url: str, signal: AbortSignal | None = None) -> str:
            return url

        assert (list(fetch.schema["properties"]), fetch.takes_signal) == (["url"], True)

    def test_the_run_is_not_in_the_schema(self) -> None:
        @tool
        async def mine(what: str, run: RunContext) -> str:
            return what

        assert (list(mine.schema["properties"]), mine.takes_run) == (["what"], True)

    @pytest.mark.parametrize("hint", [str, int])
    def test_a_parameter_that_is_only_called_run_belongs_to_the_model(self, hint: type) -> None:
        def execute(run: Any) -> str:
            return str(run)

        execute.__annotations__["run"] = hint
        made = tool(execute)
        assert (list(made.schema["properties"]), made.takes_run) == (["run"], False)

    def test_a_parameter_that_is_only_called_signal_belongs_to_the_model(self) -> None:
        @tool
        def measure(signal: str) -> str:
            return signal

        assert (list(measure.schema["properties"]), measure.takes_signal) == (["signal"], False)

    def test_names_that_pydantic_keeps_for_itself_are_good_names(self) -> None:
        @tool
        def save(copy: bool, schema: str, _hidden: int = 1) -> str:
            return f"{copy} {schema} {_hidden}"

        assert save(**save.validate({"copy": True, "schema": "s", "_hidden": 2})) == "True s 2"

    @pytest.mark.parametrize(
        "make",
        [
            pytest.param(lambda: tool(name="not a name")(lambda: ""), id="name"),
            pytest.param(lambda: tool(name="n", timeout_s=0)(lambda: ""), id="timeout"),
            pytest.param(lambda: tool(name="n")(lambda anything: ""), id="no hint"),
            pytest.param(lambda: tool(name="n")(lambda *anything: ""), id="no name to give"),
            pytest.param(lambda: tool(_yields), id="yields"),
            pytest.param(lambda: tool(_hinted_with("Nowhere")), id="unknown hint"),
            pytest.param(lambda: tool(_hinted_with(threading.Event)), id="hint without a schema"),
        ],
    )
    def test_what_no_provider_would_accept_is_refused_where_it_is_defined(self, make: Callable[[], Any]) -> None:
        with pytest.raises(ToolDefinitionError):
            make()

    def test_the_examples_of_the_docs_are_tools(self) -> None:
        pages = (Path(__file__).parents[3] / "docs" / "tools.md").read_text()
        for example in re.findall(r"```python\n(.+?)```", pages, re.DOTALL):
            defined: dict[str, Any] = {}
            exec(example, defined)
            assert [each.name for each in Toolbox(t for t in defined.values() if isinstance(t, Tool))]


def _yields() -> Iterator[str]:
    yield ""


def _hinted_with(hint: Any) -> Callable[..., str]:
    def function(thing: Any) -> str:
        return str(thing)

    function.__annotations__["thing"] = hint
    return function


class TestToolbox:
    @pytest.fixture
    def module(self, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
        def make(name: str, *names: str, **imported: Tool) -> str:
            made = types.ModuleType(name)
            for each in names:
                function = types.FunctionType((lambda: "").__code__, {"__name__": name}, each)
                setattr(made, each, tool(name=each)(function))
            vars(made).update(imported)
            monkeypatch.setitem(sys.modules, name, made)
            return name

        return make

    def test_it_gathers_the_tools_of_all_modules(self, module: Callable[..., str]) -> None:
        toolbox = Toolbox.load([module("tools_a", "one", "two"), module("tools_b", "three")])
        assert [each.name for each in toolbox] == ["one", "two", "three"]
        assert len(toolbox) == 3
        assert "two" in toolbox
        assert toolbox.get("four") is None
        assert [spec["function"]["name"] for spec in toolbox.specs()] == ["one", "two", "three"]

    def test_a_tool_that_a_module_only_imports_is_not_offered(self, module: Callable[..., str]) -> None:
        module("tools_elsewhere", "borrowed")
        borrowed = sys.modules["tools_elsewhere"].borrowed
        assert "borrowed" not in Toolbox.load([module("tools_own", "own", borrowed=borrowed)])

    def test_a_package_may_show_the_tools_of_its_own_modules(self, module: Callable[..., str]) -> None:
        module("pack.inner", "deep")
        deep = sys.modules["pack.inner"].deep
        assert "deep" in Toolbox.load([module("pack", deep=deep)])

    def test_two_tools_of_one_name_are_refused_with_both_their_places(self, module: Callable[..., str]) -> None:
        with pytest.raises(ToolDefinitionError, match=r"'same'.*tools_a.*tools_b"):
            Toolbox.load([module("tools_a", "same"), module("tools_b", "same")])

    def test_a_module_named_twice_counts_once(self, module: Callable[..., str]) -> None:
        assert len(Toolbox.load([module("tools_a", "one"), "tools_a"])) == 1

    def test_a_module_that_cannot_be_imported_is_named(self) -> None:
        with pytest.raises(ToolDefinitionError, match="'no_such_module'"):
            Toolbox.load(["no_such_module"])

    def test_a_module_without_tools_is_named(self) -> None:
        with pytest.raises(ToolDefinitionError, match="'json' defines no tool"):
            Toolbox.load(["json"])

    def test_a_choice_keeps_what_is_there_in_the_order_of_the_choice(self, module: Callable[..., str]) -> None:
        toolbox = Toolbox.load([module("tools_a", "one", "two", "three")])
        assert [each.name for each in toolbox.only(["three", "gone", "one"])] == ["three", "one"]
