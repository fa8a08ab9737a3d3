"""The scripted demo model: no model at all, and it says so in its answers. Pure.

It shows what the studio does with a model when none can be had: the same request gives the same answer, paced like a
real one. `COMMANDS` lists what it can be told to play.
"""

import asyncio
import json
import math
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from kernel.events import Usage
from kernel.llm.model import CallDelta, Delta, Finished, ModelError, ModelEvent, ModelRequest

NAME = "demo/scripted"
LABEL = "Scripted demo (not a real model)"

TOKENS_PER_S = 30.0
SLOW_TOKENS_PER_S = 2.0
SLOW_S = 60
LONG_PARAGRAPHS = 40
QUOTED_CHARACTERS = 80
# The user's closing line where a person asked for more of an answer (chat.history; a test holds the two equal).
CONTINUE = "(Continue your last answer where it ended.)"

COMMANDS = {
    "/slow": f"answers for {SLOW_S} seconds at {SLOW_TOKENS_PER_S:.0f} tokens a second: time enough to press Stop",
    "/hang": "says some words, then nothing more, for ever: only Stop or a timeout ends it",
    "/error": "says some words, then fails as a provider does",
    "/tool": "calls a tool, then answers with its result; `/tool NAME {…}` chooses the tool and its arguments",
    "/think": "shows its reasoning first, then answers",
    "/long": f"writes {LONG_PARAGRAPHS} paragraphs",
    "/markdown": "answers with a heading, a list, a table and code",
}
INTRODUCTION = "I am a scripted demo, not a real model: "
HOW_TO_CONFIGURE = (
    "For a real model, set a provider's key (such as `OPENAI_API_KEY`) or `STUDIO_MODEL` (any model string of litellm, "
    "such as `ollama_chat/llama3.2`) in the server's environment and start it again."
)
HOW_TO_OFFER_TOOLS = (
    "Name modules with tools in `STUDIO_TOOLS` (docs/tools.md) in the server's environment and start it again, or "
    "choose a role that has tools."
)
MARKDOWN = f"""\
## {INTRODUCTION}this is Markdown

1. a list,
2. with *emphasis* and `snake_case`,
   - and a nested point

| what | how fast |
| --- | ---: |
| words | {TOKENS_PER_S:.0f} tokens/s |
| `/slow` | {SLOW_TOKENS_PER_S:.0f} tokens/s |

```python
def stop(controller):
    return controller.abort("session_stop")
```

> A quotation, and the end.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Say:
    """Text or reasoning, token by token."""

    text: str
    kind: str = "text"
    tokens_per_s: float = TOKENS_PER_S


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One tool call, its arguments in pieces."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Hang:
    """Silence for ever."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fail:
    """A provider's failure."""

    message: str


Act = Say | Call | Hang | Fail


class DemoModel:
    """A `Model` that plays a script chosen by the last user message.

    `pace` waits the seconds that it is given; tests pass one that does not.
    """

    def __init__(self, *, pace: Callable[[float], Awaitable[object]] = asyncio.sleep):
        self._pace = pace

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield deltas at a steady pace, then one `Finished`. Raises `ModelError` for `/error`."""
        limit = request.max_output_tokens
        written, reason = 0, "stop"
        for event, wait_s in _performance(script(request)):
            if written == limit:
                reason = "length"
                break
            await self._pace(wait_s)
            written += 1
            yield event
            if isinstance(event, CallDelta):
                reason = "tool_calls"
        yield Finished(reason=reason, usage=Usage(input_tokens=_input_tokens(request), output_tokens=written))


def script(request: ModelRequest) -> list[Act]:
    """What to play for `request`."""
    last = request.messages[-1] if request.messages else {}
    if last.get("role") == "tool":
        return [Say(text=f"{INTRODUCTION}the tool answered: {_text(last)}")]
    if _text(last) == CONTINUE:
        return _rest(request)
    return [*_going_on(request), *_command(_last_text(request, "user"), request)]


def _rest(request: ModelRequest) -> list[Act]:
    """What is left of the script of the last answer: all that comes after the words that the model is shown of it."""
    said = _last_text(request, "assistant").split()
    acts = _command(_last_text(request, "user", but=CONTINUE), request)
    script_words = "".join(act.text for act in acts if isinstance(act, Say) and act.kind == "text").split()
    if script_words[: len(said)] != said:
        return [Say(text=f"{INTRODUCTION}I do not know how my last answer goes on.")]
    return list(_after(len(said), acts)) or [Say(text=f"{INTRODUCTION}my last answer was complete.")]


def _after(count: int, acts: list[Act]) -> Iterator[Act]:
    """`acts` without the first `count` words of their text, and without reasoning, which is not told twice."""
    for act in acts:
        if not isinstance(act, Say):
            yield act
        elif act.kind == "text":
            words = tokens(act.text)
            if count < len(words):
                yield replace(act, text="".join(words[count:]))
            count = max(0, count - len(words))


def _command(said: str, request: ModelRequest) -> list[Act]:
    """The script for what a person said."""
    command, rest = (*said.split(maxsplit=1), "", "")[:2]
    match command:
        case "/slow":
            return [Say(text=_numbered(int(SLOW_S * SLOW_TOKENS_PER_S)), tokens_per_s=SLOW_TOKENS_PER_S)]
        case "/hang":
            return [Say(text=f"{INTRODUCTION}from here on I say nothing more, until you stop me …"), Hang()]
        case "/error":
            return [
                Say(text=f"{INTRODUCTION}after this sentence I fail, as a provider can."),
                Fail(message="The scripted demo failed, as /error asks it to. Send another message to go on."),
            ]
        case "/tool":
            return _tool(rest, request)
        case "/think":
            thought = "The person wants to see reasoning. I have none, being scripted; so I show where it would stand."
            return [
                Say(text=thought, kind="reasoning"),
                Say(text=f"{INTRODUCTION}what you can unfold above was no real thought."),
            ]
        case "/long":
            return [Say(text=_paragraphs())]
        case "/markdown":
            return [Say(text=MARKDOWN)]
    return [Say(text=_help(said.strip()))]


def _going_on(request: ModelRequest) -> list[Act]:
    """A first sentence for the case that the system prompt speaks of an interruption."""
    if "interrupt" not in _last_text(request, "system").lower():
        return []
    partial = _last_text(request, "assistant").strip()
    if not partial:
        return [Say(text="My last message was interrupted before its first word; I go on with your new one.\n\n")]
    tail = partial[-QUOTED_CHARACTERS:]
    return [Say(text=f"My last message was interrupted and is partial; I go on from “…{tail}”.\n\n")]


def _tool(rest: str, request: ModelRequest) -> list[Act]:
    functions = {tool["function"]["name"]: tool["function"] for tool in request.tools}
    if not functions:
        return [Say(text=f"{INTRODUCTION}no tool is offered to me. {HOW_TO_OFFER_TOOLS}")]
    wanted, _, given = rest.partition(" ")
    name = wanted or next(iter(functions))
    if name not in functions:
        return [Say(text=f"{INTRODUCTION}I know no tool {wanted!r}. There are: {', '.join(functions)}.")]
    arguments = given.strip() or json.dumps(_arguments(functions[name].get("parameters") or {}))
    return [
        Say(text=f"I call the tool `{name}`.\n"),
        Call(call_id=f"demo_{len(request.messages)}", name=name, arguments=arguments),
    ]


def _arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """A value for each required argument."""
    properties = schema.get("properties", {})
    return {name: _value(properties.get(name, {})) for name in schema.get("required", ())}


def _value(schema: dict[str, Any]) -> Any:
    if "default" in schema:
        return schema["default"]
    if choices := schema.get("enum") or schema.get("examples"):
        return choices[0]
    if variants := schema.get("anyOf"):
        return _value(variants[0])
    if schema.get("type") == "object":
        return _arguments(schema)
    return {"integer": 2, "number": 2.5, "boolean": True, "array": [], "null": None}.get(schema.get("type", ""), "demo")


def _performance(acts: list[Act]) -> Iterator[tuple[ModelEvent, float]]:
    """The events of `acts`, one per token, each with the wait in seconds before it; the last words may be a failure."""
    for act in acts:
        match act:
            case Say():
                for token in tokens(act.text):
                    yield Delta(kind=act.kind, text=token), 1 / act.tokens_per_s
            case Call():
                yield CallDelta(index=0, call_id=act.call_id, name=act.name), 1 / TOKENS_PER_S
                for piece in tokens(act.arguments):
                    yield CallDelta(index=0, arguments=piece), 1 / TOKENS_PER_S
            case Hang():
                yield Delta(kind="text", text="never"), math.inf
            case Fail():
                raise ModelError(act.message, status=500)


def tokens(text: str) -> list[str]:
    """The demo's own tokens: words with the white space after them. Joined, they are `text`."""
    return re.findall(r"\S+\s*|\s+", text)


def _input_tokens(request: ModelRequest) -> int:
    return sum(len(tokens(_text(message))) for message in request.messages)


def _last_text(request: ModelRequest, role: str, but: str = "") -> str:
    texts = (_text(message) for message in reversed(request.messages) if message.get("role") == role)
    return next((text for text in texts if text != but), "")


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content)


def _help(said: str) -> str:
    lines = "\n".join(f"- `{command}` {effect}" for command, effect in COMMANDS.items())
    quoted = said if len(said) <= QUOTED_CHARACTERS else said[:QUOTED_CHARACTERS] + "…"
    return (
        f"{INTRODUCTION}I cannot answer “{quoted}”, but I can show what the studio does with an answer. "
        f"Send one of these:\n\n{lines}\n\n{HOW_TO_CONFIGURE}"
    )


def _numbered(count: int) -> str:
    opening = tokens(f"{INTRODUCTION}I count slowly, so that you can stop me: ")
    return "".join([*opening, *(f"{number} " for number in range(1, count - len(opening) + 1))]).rstrip()


def _paragraphs() -> str:
    sentences = (
        "it is here so that there is something long to scroll through",
        "stop it anywhere, and every word that had arrived is kept",
        "close the page, come back, and the same answer goes on",
    )
    return f"{INTRODUCTION}here is a long text.\n\n" + "\n\n".join(
        f"Paragraph {number} of {LONG_PARAGRAPHS}: {sentences[number % len(sentences)]}."
        for number in range(1, LONG_PARAGRAPHS + 1)
    )
