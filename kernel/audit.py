"""Who ordered what: one row for each stop, panic and release, written in the transaction of the order itself.

What became of the executions that an order named is theirs to tell, in the ledger.
"""

from datetime import timedelta

from django.db import models
from django.db.models.functions import Now

REFUSED_S = 60


class Verb(models.TextChoices):
    STOP = "stop"
    PANIC = "panic"
    RELEASE = "release"


class AuditQuerySet(models.QuerySet["AuditEntry"]):
    def write(
        self,
        verb: Verb,
        *,
        by: str,
        source: str,
        target: str,
        reason: str = "",
        abort_reason: str = "",
        executions: int = 0,
    ) -> None:
        """Add one entry; called in the order's own transaction, so that neither stands without the other."""
        self.create(
            verb=verb,
            by=by,
            source=source,
            target=target,
            reason=reason,
            abort_reason=abort_reason,
            executions=executions,
        )

    def write_refused(self, verb: Verb, *, by: str, source: str, target: str) -> None:
        """Note an order that was refused; the same again within `REFUSED_S` is no news, so nobody floods the table."""
        same = self.filter(verb=verb, by=by, target=target, refused=True, at__gte=Now() - timedelta(seconds=REFUSED_S))
        if not same.exists():
            self.create(verb=verb, by=by, source=source, target=target, refused=True)


class AuditEntry(models.Model):
    """One order. `target` and `reason` are words for people; `executions` is how many live ones it named.

    `refused`: it was given by somebody who may not, and nothing was done.
    """

    at = models.DateTimeField(db_default=Now(), db_index=True)
    verb = models.CharField(max_length=16, choices=Verb.choices)
    by = models.CharField(max_length=150, blank=True)
    source = models.CharField(max_length=32, blank=True)
    target = models.TextField()
    reason = models.TextField(blank=True)
    abort_reason = models.CharField(max_length=32, blank=True)
    executions = models.PositiveIntegerField(default=0)
    refused = models.BooleanField(default=False)

    objects = AuditQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"{self.verb} {self.target}"
