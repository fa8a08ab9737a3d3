"""Numbers of the ledger as people read them: ages, latencies, tokens, costs. What was estimated is marked with ~."""

from datetime import timedelta

from django.utils.formats import number_format
from django.utils.translation import gettext as _

from kernel.models import ExecutionRecord

NOTHING = "–"


def age(span: timedelta | None) -> str:
    """A span in its largest unit: 12 s, 5 min, 3 h, 2 d."""
    if span is None:
        return NOTHING
    seconds = max(0, int(span.total_seconds()))
    for size, words in ((86_400, _("%s d")), (3600, _("%s h")), (60, _("%s min"))):
        if seconds >= size:
            return words % (seconds // size)
    return _("%s s") % seconds


def milliseconds(ms: float | None) -> str:
    return NOTHING if ms is None else _("%s ms") % number_format(ms, decimal_pos=1)


def tokens(record: ExecutionRecord) -> str:
    """In → out."""
    told = f"{number_format(record.input_tokens)} → {number_format(record.output_tokens)}"
    return f"~ {told}" if record.estimated else told


def cost(record: ExecutionRecord) -> str:
    if record.cost_usd is None:
        return NOTHING
    told = f"${number_format(record.cost_usd, decimal_pos=6).rstrip('0').rstrip('.,') or '0'}"
    return f"~ {told}" if record.estimated else told
