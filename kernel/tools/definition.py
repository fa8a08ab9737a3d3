"""Tools: plain Python functions that a model may call, under one decorator. Pure; `kernel.tools.call` runs a call.

    @tool
    async def search(query: str, limit: int = 5) -> list[str]:
        "Search the archive."

The type hints make the JSON Schema, the docstring tells the model what it is for, and the function stays callable.
A definition that no provider would accept is refused here, while the module is being imported, not in the middle of a
turn.
"""

import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, get_args, get_type_hints, overload

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import TypedDict  # pydantic takes typing's own only from Python 3.12 on

from kernel.abort import AbortSignal
from kernel.errors import ToldError

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what every provider accepts
SIGNAL = "signal"
RUN = "run"


class ToolDefinitionError(ToldError):
    """A tool cannot be used as it is defined. `message` tells whoever can mend it."""

    @property
    def message(self) -> str:
        return f"{self} Correct the tool or the setting STUDIO_TOOLS, and restart the server."


@dataclass(frozen=True, kw_only=True, slots=True)
class RunContext:
    """Whose run a call belongs to: told by the kernel, never by the model."""

    execution_id: str
    session_key: str
    user_id: int | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Tool:
    """One function that a model may call.

    `schema` is the JSON Schema of its arguments. `timeout_s` is its own limit in seconds, None for the configured one.
    `takes_signal` says that the function wants the `AbortSignal` of its call as `signal`, `takes_run` that it wants the
    `RunContext` as `run`.
    """

    name: str
    description: str
    schema: dict[str, Any]
    function: Callable[..., Any]
    is_async: bool
    takes_signal: bool
    timeout_s: float | None
    arguments: TypeAdapter[dict[str, Any]] = field(repr=False)
    takes_run: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @property
    def spec(self) -> dict[str, Any]:
        """The tool as OpenAI's chat completions describe it."""
        about = {"name": self.name, "description": self.description, "parameters": self.schema}
        return {"type": "function", "function": about}

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments in the types of the hints. Raises pydantic's `ValidationError`."""
        return self.arguments.validate_python(arguments)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(*, name: str | None = None, timeout_s: float | None = None) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, *, name: str | None = None, timeout_s: float | None = None
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a `Tool` of a sync or async function, as `@tool` or `@tool(name=…, timeout_s=…)`.

    A parameter named `signal`, hinted `AbortSignal` or not hinted, and one named `run`, hinted `RunContext`, are given
    by the kernel and hidden from the model. Raises `ToolDefinitionError`.
    """
    if function is not None:
        return _defined(function, name, timeout_s)
    return lambda function: _defined(function, name, timeout_s)


class Toolbox:
    """Tools by name; a collection that never changes."""

    def __init__(self, tools: Iterable[Tool] = ()):
        """Raises `ToolDefinitionError` if two tools share a name."""
        self._tools: dict[str, Tool] = {}
        for each in tools:
            other = self._tools.setdefault(each.name, each)
            if other is not each:
                places = " and ".join(f"{t.function.__module__}.{t.function.__qualname__}" for t in (other, each))
                raise ToolDefinitionError(f"Two tools have the name {each.name!r}: {places}.")

    @classmethod
    def load(cls, modules: Iterable[str]) -> "Toolbox":
        """Import the modules and gather the tools defined in them, or below them and shown by them.

        A tool that a module merely imports from elsewhere is not offered. Raises `ToolDefinitionError`, naming the
        module, if one cannot be imported or defines no tool.
        """
        return cls(each for module in dict.fromkeys(modules) for each in _tools_of(module))

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def only(self, names: Iterable[str]) -> "Toolbox":
        """The tools with these names, in their order. An unknown name adds nothing: a role may outlive a tool."""
        return Toolbox(self._tools[name] for name in dict.fromkeys(names) if name in self._tools)

    def specs(self) -> list[dict[str, Any]]:
        """The tools as a model request carries them."""
        return [each.spec for each in self]


def safe_name(name: str) -> str:
    """A tool's name as every provider takes it back: a model may have called one that was never there."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unknown"


def _tools_of(module_name: str) -> list[Tool]:
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise ToolDefinitionError(
            f"The tools of {module_name!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    found = [each for each in vars(module).values() if isinstance(each, Tool) and _is_below(each, module_name)]
    if not found:
        raise ToolDefinitionError(f"The module {module_name!r} defines no tool: put @tool on a function in it.")
    return found


def _is_below(each: Tool, module_name: str) -> bool:
    return f"{each.function.__module__}.".startswith(f"{module_name}.")


def _defined(function: Callable[..., Any], name: str | None, timeout_s: float | None) -> Tool:
    name = name or str(getattr(function, "__name__", ""))
    if not NAME.fullmatch(name):
        raise ToolDefinitionError(f"The tool name {name!r} must be 1 to 64 letters, digits, hyphens or underscores.")
    if timeout_s is not None and timeout_s <= 0:
        raise ToolDefinitionError(f"The timeout of tool {name!r} must be more than 0 seconds, not {timeout_s!r}.")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ToolDefinitionError(f"Tool {name!r} yields; it must return its result.")
    description, about = _read_docstring(function)
    parameters, given = _parameters(function, name)
    arguments, schema = _arguments(name, parameters, about)
    return Tool(
        name=name,
        description=description,
        schema=schema,
        function=function,
        is_async=inspect.iscoroutinefunction(function),
        takes_signal=SIGNAL in given,
        takes_run=RUN in given,
        timeout_s=timeout_s,
        arguments=arguments,
    )


def _read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Split a docstring into what the tool does and what each parameter means (Google's `Args:` block)."""
    text = inspect.getdoc(function) or ""
    block = re.search(r"^Args:\n((?:[ \t]+\S.*(?:\n|\Z)|[ \t]*\n)+)", text, re.MULTILINE)
    if block is None:
        return text, {}
    entries = re.findall(
        r"^(\w+)(?: \([^)]*\))?:[ \t]*((?:.|\n(?=[ \t]|\n))+)", inspect.cleandoc(block[1]), re.MULTILINE
    )
    rest = f"{text[: block.start()].rstrip()}\n\n{text[block.end() :].lstrip()}".strip()
    return rest, {name: " ".join(meaning.split()) for name, meaning in entries}


def _parameters(function: Callable[..., Any], name: str) -> tuple[dict[str, inspect.Parameter], set[str]]:
    """The parameters that the model fills, each with its hint resolved; the names of those that the kernel gives."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise ToolDefinitionError(f"The type hints of tool {name!r} cannot be read: {error}.") from error
    parameters, given = {}, set()
    for key, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ToolDefinitionError(
                f"Tool {name!r} has a parameter that cannot be given by name: {str(parameter)!r}."
            )
        if (key == SIGNAL and _is(AbortSignal, hints.get(key, AbortSignal))) or (
            key == RUN and _is(RunContext, hints.get(key))
        ):
            given.add(key)
        elif key not in hints:
            raise ToolDefinitionError(f"The parameter {key!r} of tool {name!r} has no type hint.")
        else:
            parameters[key] = parameter.replace(annotation=hints[key])
    return parameters, given


def _is(kind: type, hint: Any) -> bool:
    return hint is kind or kind in get_args(hint)


def _arguments(
    name: str, parameters: dict[str, inspect.Parameter], about: dict[str, str]
) -> tuple[TypeAdapter[dict[str, Any]], dict[str, Any]]:
    """The check of a call's arguments, and the JSON Schema that tells the model about it."""
    fields = {key: _field(parameter, about.get(key)) for key, parameter in parameters.items()}
    # A TypedDict takes any name for a key (a model class refuses `_x` and warns of `copy`) and leaves the function's
    # defaults to the function.
    shape = TypedDict("Arguments", fields)  # type: ignore[misc]  # the fields are known only here
    shape.__pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[attr-defined]  # pydantic's way for a TypedDict
    try:
        arguments: TypeAdapter[dict[str, Any]] = TypeAdapter(shape)  # type: ignore[arg-type]  # it is one
        schema = arguments.json_schema(schema_generator=_WithoutTitles)
    except PydanticUserError as error:
        raise ToolDefinitionError(f"The type hints of tool {name!r} make no JSON Schema: {error}") from error
    schema.pop("title", None)
    return arguments, {"properties": {}, **schema}


def _field(parameter: inspect.Parameter, meaning: str | None) -> Any:
    default = parameter.default
    told: Any = {"default": default} if isinstance(default, str | int | float) else None
    hint: Any = parameter.annotation
    hint = Annotated[hint, Field(description=meaning, json_schema_extra=told)]
    return hint if default is parameter.empty else NotRequired[hint]


class _WithoutTitles(GenerateJsonSchema):
    """Titles repeat the names, and every request pays for them."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False
