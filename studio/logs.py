"""Log lines: the sentence, then what it is about."""

import logging

ABOUT = ("action", "execution_id")


class LineFormatter(logging.Formatter):
    """Appends the fields of `extra` that the product uses, as `name=value`."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        about = "".join(f" {name}={value}" for name in ABOUT if (value := getattr(record, name, None)) is not None)
        return super().formatMessage(record) + about
