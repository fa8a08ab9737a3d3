"""What is said and remembered. A message's end (why, by whom, tokens, cost) is its execution's, not kept twice."""

from datetime import timedelta
from typing import Any, Self

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models.functions import Now

from kernel.allowance import Allowance
from kernel.models import ExecutionRecord


def a_positive_limit() -> dict[str, Any]:
    return {"null": True, "blank": True, "validators": [MinValueValidator(1)]}


class AgentRole(models.Model):
    """An agent's profile, edited in the admin and chosen in the studio.

    Each limit that it names holds instead of the server's, lower or higher: whoever edits roles decides for the server.
    """

    # Its limits, and the settings for which they stand in.
    LIMITS = {
        "max_steps": "STUDIO_MAX_STEPS",
        "max_output_tokens": "STUDIO_MAX_OUTPUT_TOKENS",
        "max_cost_usd": "STUDIO_MAX_COST_USD",
        "max_repeated_calls": "STUDIO_MAX_REPEATED_CALLS",
    }

    name = models.CharField(max_length=100, unique=True)
    instructions = models.TextField(blank=True)
    model = models.CharField(max_length=255, blank=True)
    tools = models.JSONField(null=True, blank=True)
    max_steps = models.PositiveIntegerField(**a_positive_limit())
    max_output_tokens = models.PositiveIntegerField(**a_positive_limit())
    max_cost_usd = models.FloatField(null=True, blank=True, validators=[MinValueValidator(0.0001)])
    max_repeated_calls = models.PositiveIntegerField(**a_positive_limit())

    def __str__(self) -> str:
        return self.name

    @property
    def tool_names(self) -> list[str] | None:
        """The tools it may use; None: every tool."""
        return [name for name in self.tools if isinstance(name, str)] or None if isinstance(self.tools, list) else None

    def allowance(self, site: Allowance) -> Allowance:
        """The limits of its turns: its own, else the server's."""
        return Allowance(
            output_tokens=self.max_output_tokens or site.output_tokens,
            cost_usd=self.max_cost_usd or site.cost_usd,
            repeated_calls=self.max_repeated_calls or site.repeated_calls,
        )


class ChatSession(models.Model):
    """One conversation of one person. `key` is chosen by the client that sends its first message."""

    key = models.CharField(max_length=64, unique=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="chat_sessions")
    title = models.CharField(max_length=200, blank=True)
    agent_role = models.ForeignKey(AgentRole, null=True, blank=True, on_delete=models.SET_NULL)
    model = models.CharField(max_length=255, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["user", "-updated_at", "-id"], name="sessions_of_user")]

    def __str__(self) -> str:
        return self.title or self.key


class MessageRole(models.TextChoices):
    USER = "user"
    ASSISTANT = "assistant"


class MessageStatus(models.TextChoices):
    STREAMING = "streaming"
    COMPLETED = "completed"
    ERROR = "error"
    ABORTED = "aborted"


class MessageQuerySet(models.QuerySet["ChatMessage"]):
    def streaming(self) -> Self:
        return self.filter(status=MessageStatus.STREAMING)

    def save_partial(self, pk: int, **fields: Any) -> bool:
        """Keep what has arrived. False: the message has ended."""
        return bool(self.streaming().filter(pk=pk).update(**fields))


class ChatMessage(models.Model):
    """One message. `parts` are the contract's objects in order; `text` is its text parts, joined."""

    session = models.ForeignKey(ChatSession, on_delete=models.CASCADE, related_name="messages")
    role = models.CharField(max_length=16, choices=MessageRole.choices)
    status = models.CharField(max_length=16, choices=MessageStatus.choices, default=MessageStatus.COMPLETED)
    text = models.TextField(blank=True)
    parts = models.JSONField(default=list, blank=True)
    client_message_id = models.CharField(max_length=128, blank=True)
    execution = models.ForeignKey(
        ExecutionRecord, null=True, blank=True, on_delete=models.SET_NULL, related_name="messages"
    )
    context = models.JSONField(null=True, blank=True)
    interrupted_previous = models.BooleanField(default=False)
    # The queue item that this message was, and whether a turn was ended for it: a repeated Send now answers from them.
    queued_as = models.BigIntegerField(null=True, blank=True)
    interrupting = models.BooleanField(default=False)
    continues = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="continued_by")
    replaces = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="replaced_by")
    created_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = MessageQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["session", "client_message_id"],
                condition=~models.Q(client_message_id=""),
                name="a_message_is_sent_once",
            ),
            models.UniqueConstraint(
                fields=["queued_as"],
                condition=models.Q(queued_as__isnull=False),
                name="a_queued_message_is_sent_once",
            ),
        ]
        indexes = [models.Index(fields=["session", "-id"], name="messages_of_session")]

    def __str__(self) -> str:
        return f"{self.role} {self.pk}"


class QueuedQuerySet(models.QuerySet["QueuedMessage"]):
    def in_order(self) -> Self:
        return self.order_by("position", "id")

    def next_up(self) -> "QueuedMessage | None":
        """What is sent next: what Send now has promised, wherever it was moved since; else the head."""
        return self.order_by("-promoted", "position", "id").first()


class QueuedMessage(models.Model):
    """A message that waits for the running turn. It leaves the queue in the transaction that sends it."""

    EDITING = timedelta(seconds=60)

    session = models.ForeignKey(ChatSession, on_delete=models.CASCADE, related_name="queue")
    position = models.IntegerField()
    text = models.TextField()
    client_message_id = models.CharField(max_length=128, blank=True)
    request_id = models.CharField(max_length=128, blank=True)
    agent_role = models.ForeignKey(AgentRole, null=True, blank=True, on_delete=models.SET_NULL)
    model = models.CharField(max_length=255, blank=True)
    context = models.JSONField(null=True, blank=True)
    interrupted = models.BooleanField(default=False)  # as the client claims
    # Send now: to be sent when the turn that it interrupts has ended. A stop or a panic takes the promise back, and so
    # does a hold that it meets; `promoted_by`, the command's clientMessageId, and `interrupting` outlive that.
    promoted = models.BooleanField(default=False)
    promoted_by = models.CharField(max_length=128, blank=True)
    interrupting = models.BooleanField(default=False)
    editing_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())

    objects = QueuedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["session", "client_message_id"],
                condition=~models.Q(client_message_id=""),
                name="a_message_is_queued_once",
            ),
        ]
        indexes = [models.Index(fields=["session", "position", "id"], name="queue_of_session")]

    def __str__(self) -> str:
        return f"{self.session_id}:{self.position}"
