"""Why the chat refuses a wish. The message is the docstring unless a better one is given; `code` is the contract's."""


class ChatError(Exception):
    """The wish cannot be granted."""

    code = "internal"

    def __init__(self, message: str = ""):
        super().__init__(message or self.__doc__)


class NotFound(ChatError):
    """There is no such session or message."""

    code = "not_found"


class Forbidden(ChatError):
    """You may not do this. Ask an operator."""

    code = "forbidden"


class Held(ChatError):
    """New runs are on hold. Nothing was sent; send again when an operator has released the hold."""

    code = "held"


class QueueFull(ChatError):
    """The queue is full. Remove a message, or wait until one was sent."""

    code = "queue_full"


class Invalid(ChatError):
    """This is not allowed."""

    code = "invalid"


class Stale(ChatError):
    """The message has already been taken from the queue."""

    code = "stale"


class Conflict(ChatError):
    """The session is busy. Stop it, or wait for its end."""

    code = "conflict"
