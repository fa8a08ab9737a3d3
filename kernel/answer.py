"""What one model call has said so far, and its tool calls as they arrive. Pure."""

from dataclasses import dataclass, field
from typing import Any

from kernel.events import Usage
from kernel.llm.text import storable
from kernel.tools import safe_name
from kernel.tools.call import parse_arguments

# The usual rule of thumb for the tokens of a text whose provider never counted them.
CHARS_PER_TOKEN = 4


@dataclass(kw_only=True)
class ToolCall:
    """A tool call as it arrives."""

    call_id: str
    name: str = ""
    pieces: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    @property
    def input(self) -> dict[str, Any]:
        """The arguments as an object; {} where they are none, and the call's result will say why."""
        try:
            return storable(parse_arguments(self.arguments))
        except ValueError:
            return {}

    @property
    def sendable(self) -> str:
        """The arguments as they may go back to a provider: strict ones refuse what is not a JSON object."""
        try:
            parse_arguments(self.arguments)
        except ValueError:
            return "{}"
        return self.arguments or "{}"


@dataclass(kw_only=True)
class Answer:
    """The text, the calls and the end of one model call. `chars` counts all output, reasoning and arguments too."""

    text: list[str] = field(default_factory=list)
    chars: int = 0
    calls: list[ToolCall] = field(default_factory=list)
    finish_reason: str = ""
    usage: Usage = field(default_factory=Usage)

    def as_message(self) -> dict[str, Any]:
        calls = [
            {"id": c.call_id, "type": "function", "function": {"name": safe_name(c.name), "arguments": c.sendable}}
            for c in self.calls
        ]
        return {"role": "assistant", "content": "".join(self.text) or None, "tool_calls": calls}


def tokens(chars: int) -> int:
    """About how many tokens so many characters are."""
    return -(-chars // CHARS_PER_TOKEN)
