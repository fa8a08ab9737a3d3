"""The failures whose words are meant for people."""


class ToldError(Exception):
    """Something failed; `message` tells a person what happened and what to do, and holds no secret.

    `finish_reason` is a stable code for programs, where there is one.
    """

    finish_reason = ""

    @property
    def message(self) -> str:
        return str(self)
