"""What the model is told for one turn: the last messages as stored, and the system prompt's parts. One query each."""

from dataclasses import dataclass
from typing import Any

from chat.admission import Started
from chat.history import StoredMessage, to_model_messages
from chat.models import AgentRole, ChatMessage, MessageRole
from chat.prompts import Note, PageContext, RolePrompt, note_for, system_prompt
from kernel import conf
from kernel.allowance import Allowance

HISTORY_MESSAGES = 50
# Read beyond those, so that what was replaced does not crowd out what counts.
READ_MESSAGES = 2 * HISTORY_MESSAGES


@dataclass(frozen=True, kw_only=True)
class Briefing:
    """The conversation in the model's form, and what its system prompt says."""

    history: list[dict[str, Any]]
    role: RolePrompt | None
    context: PageContext | None
    note: Note | None
    tool_names: list[str] | None
    max_steps: int
    allowance: Allowance

    def system(self, final: bool, tools: bool) -> str:
        return system_prompt(
            role=self.role, context=self.context, note=self.note, final_step=final, tools=tools and not final
        )


def brief(started: Started) -> Briefing:
    """Read what the model must know for this turn."""
    rows = _last_messages(started)
    stored = [StoredMessage(role=row.role, status=row.status, text=row.text, parts=row.parts) for row in rows]
    asked = [row for row in rows if row.role == MessageRole.USER]
    # As it is now: it may have been edited since the session was read, or deleted.
    role_id = started.session.agent_role_id
    role = AgentRole.objects.filter(pk=role_id).first() if role_id else None
    return Briefing(
        history=to_model_messages(stored),
        role=_role(role),
        context=_context(asked[-1] if asked else None),
        note=_note(stored, started.user_message),
        tool_names=role.tool_names if role else None,
        max_steps=(role.max_steps if role else None) or conf.max_steps(),
        allowance=role.allowance(conf.allowance()) if role else conf.allowance(),
    )


def _last_messages(started: Started) -> list[Any]:
    """The last messages before the answer, oldest first, without those that were replaced.

    Rows of a message's columns: a model instance of each would take longer than to read them.
    """
    rows = (
        ChatMessage.objects.filter(session=started.session, pk__lt=started.answer.pk)
        .order_by("-id")
        .values_list("id", "role", "status", "text", "parts", "replaces_id", "context", named=True)[:READ_MESSAGES]
    )
    kept: list[Any] = []
    row: Any
    for row in [*reversed(rows), started.answer]:
        if row.replaces_id is not None:
            # An answer replaces one row; a message that was sent anew replaces its old text and all that followed.
            replaced = row.replaces_id
            kept = [k for k in kept if k.id < replaced or (row.role == MessageRole.ASSISTANT and k.id != replaced)]
        kept.append(row)
    return kept[:-1][-HISTORY_MESSAGES:]


def _note(stored: list[StoredMessage], user_message: ChatMessage | None) -> Note | None:
    answers = [message for message in stored if message.role == MessageRole.ASSISTANT]
    claimed = bool(user_message and user_message.interrupted_previous)
    return note_for(interrupted_flag=claimed, previous=answers[-1] if answers else None)


def _role(role: AgentRole | None) -> RolePrompt | None:
    return RolePrompt(name=role.name, instructions=role.instructions) if role else None


def _context(user_message: Any) -> PageContext | None:
    context = user_message.context if user_message else None
    if not context:
        return None
    return PageContext(title=context.get("title", ""), url=context.get("url", ""), text=context.get("text", ""))
