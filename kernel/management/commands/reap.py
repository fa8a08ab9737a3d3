"""End, from the shell, what lost workers have left running."""

from typing import Any

from kernel.management.answering import Answer, AnsweringCommand
from kernel.models import ExecutionRecord


class Command(AnsweringCommand):
    """Settles the executions whose worker's lease has run out, as any living worker would."""

    help = "Settle the executions of lost workers; what is slow but alive is left alone."

    def answer(self, **_: Any) -> Answer:
        settled = ExecutionRecord.objects.settle_orphans()
        left = ExecutionRecord.objects.live().count()
        value = {"ok": True, "settledCount": len(settled), "settled": settled, "activeCount": left}
        return Answer(value=value, text=f"Settled {len(settled)}. Still live: {left}.")
