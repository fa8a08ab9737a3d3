"""The ledger in the admin: seen, stopped, held and released, and never edited.

Whoever may stop others' executions or panic sees the ledger; so does staff with Django's own view permission. Nobody
adds, changes or deletes here: rows are what happened.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.db.models import Count, DurationField, ExpressionWrapper, F, Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from kernel import conf, control, orders
from kernel.admin import words
from kernel.admin.panic_page import SOURCE, panic_page, tell
from kernel.admin.plots import DAY, Stop, plot_of
from kernel.admin.readonly import ReadOnlyAdmin
from kernel.audit import AuditEntry
from kernel.control import Counts, Target
from kernel.models import ExecutionQuerySet, ExecutionRecord, ExecutionStatus, Hold, Worker

STOP_ANY, PANIC = "kernel.stop_any_execution", "kernel.panic"
# More stops than this in a day are drawn by their newest.
PLOTTED_STOPS = 20_000


class LedgerAdmin(ReadOnlyAdmin):
    """What executions have in common, live or ended."""

    seen_with = (STOP_ANY, PANIC)
    list_select_related = ("user", "worker")
    date_hierarchy = "started_at"
    ordering = ("-started_at", "-pk")
    search_fields = ("session_key", "user__username")
    search_help_text = _("An execution's id, a session's key, or a user's name")
    list_per_page = 50
    readonly_fields: ClassVar[tuple[str, ...]] = ("tokens", "cost", "closed", "settled")
    fieldsets: ClassVar[tuple[Any, ...]] = (
        (None, {"fields": ("id", "kind", "status", "session_key", "user", "model", "worker", "request_id")}),
        (_("Stop"), {"fields": ("intent", "abort_reason", "timeout_kind", "requested_by", "source", "requested_at")}),
        (_("Times"), {"fields": ("started_at", "first_output_ms", "closed", "settled", "finished_at", "duration_ms")}),
        (_("Outcome"), {"fields": ("finish_reason", "error", "steps", "tokens", "cost")}),
    )

    @admin.display(description=_("tokens"), ordering="output_tokens")
    def tokens(self, record: ExecutionRecord) -> str:
        return words.tokens(record)

    @admin.display(description=_("cost"), ordering="cost_usd")
    def cost(self, record: ExecutionRecord) -> str:
        return words.cost(record)

    @admin.display(description=_("provider closed"), ordering="upstream_closed_ms")
    def closed(self, record: ExecutionRecord) -> str:
        return words.milliseconds(record.upstream_closed_ms)

    @admin.display(description=_("settled"), ordering="settled_ms")
    def settled(self, record: ExecutionRecord) -> str:
        return words.milliseconds(record.settled_ms)


@admin.register(ExecutionRecord)
class ExecutionAdmin(LedgerAdmin):
    """Every execution, live and ended; Stop for those who may."""

    list_display = (
        "started_at",
        "state",
        "kind",
        "session_key",
        "user",
        "model",
        "worker",
        "tokens",
        "cost",
    )
    list_filter = (
        "status",
        "abort_reason",
        "kind",
        ("worker", admin.RelatedOnlyFieldListFilter),
        "model",
        ("user", admin.RelatedOnlyFieldListFilter),
    )
    actions = ("stop_selected",)

    @admin.display(description=_("state"), ordering="status")
    def state(self, record: ExecutionRecord) -> str:
        if record.status == ExecutionStatus.RUNNING and record.intent:
            return gettext("stopping (%s)") % record.intent
        return f"{record.status} ({record.abort_reason})" if record.abort_reason else record.status

    @admin.action(description=_("Stop selected"), permissions=["stop"])
    def stop_selected(self, request: HttpRequest, queryset: ExecutionQuerySet) -> None:
        live = queryset.order_by().stoppable().values_list("pk", "session_key")
        targets = [Target(execution_id=str(pk), session_key=key or None) for pk, key in live]
        ended = queryset.exclude(status=ExecutionStatus.RUNNING).count()
        counts = async_to_sync(_stopped)(targets, request.user.get_username())
        tell(request, replace(counts, already_finished=counts.already_finished + ended))

    def has_stop_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(STOP_ANY)

    def get_urls(self) -> list[Any]:
        panic = path("panic/", self.admin_site.admin_view(self.panic), name="kernel_panic")
        return [panic, *super().get_urls()]

    def panic(self, request: HttpRequest) -> HttpResponse:
        return panic_page(request, self.admin_site)


class AbortedRunAdmin(LedgerAdmin):
    """The aborted ones, with the drawing of the last day. Registered by whoever knows what was kept of them."""

    list_display: tuple[str, ...] = (
        "requested_at",
        "abort_reason",
        "who",
        "latency",
        "tokens",
        "cost",
        "session_key",
        "user",
        "model",
    )
    list_filter = (
        "abort_reason",
        "source",
        "kind",
        ("worker", admin.RelatedOnlyFieldListFilter),
        "model",
        ("user", admin.RelatedOnlyFieldListFilter),
    )

    class Media:
        css = {"all": ("kernel/css/admin.css",)}

    @admin.display(description=_("who"), ordering="requested_by")
    def who(self, record: ExecutionRecord) -> str:
        return ", ".join(filter(None, (record.requested_by, record.source))) or words.NOTHING

    @admin.display(description=_("closed → settled"), ordering="settled_ms")
    def latency(self, record: ExecutionRecord) -> str:
        return f"{words.milliseconds(record.upstream_closed_ms)} → {words.milliseconds(record.settled_ms)}"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).filter(status=ExecutionStatus.ABORTED)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {**(extra_context or {}), "plot": plot_of(_day(), timezone.now())})


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """The processes, by the database's clock."""

    seen_with = (STOP_ANY, PANIC)
    list_display = ("name", "state", "started_at", "heartbeat_age", "lease_left", "live")
    list_filter = ("draining", "host")
    ordering = ("-lease_until",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Worker]:
        span = DurationField()
        return (
            super()
            .get_queryset(request)
            .annotate(
                beat_span=ExpressionWrapper(Now() - F("heartbeat_at"), output_field=span),
                lease_span=ExpressionWrapper(F("lease_until") - Now(), output_field=span),
                live_count=Count("executions", filter=Q(executions__status=ExecutionStatus.RUNNING)),
            )
        )

    @admin.display(description=_("worker"), ordering="host")
    def name(self, worker: Worker) -> str:
        return str(worker)

    @admin.display(description=_("state"))
    def state(self, worker: Any) -> str:
        if worker.lease_span < timedelta():
            return gettext("gone") if worker.draining else gettext("lost")
        return gettext("draining") if worker.draining else gettext("alive")

    @admin.display(description=_("last heartbeat"), ordering="heartbeat_at")
    def heartbeat_age(self, worker: Any) -> str:
        return gettext("%s ago") % words.age(worker.beat_span)

    @admin.display(description=_("lease left"), ordering="lease_until")
    def lease_left(self, worker: Any) -> str:
        return words.age(worker.lease_span) if worker.lease_span >= timedelta() else words.NOTHING

    @admin.display(description=_("live executions"), ordering="live_count")
    def live(self, worker: Any) -> int:
        return worker.live_count


class ActiveFilter(admin.SimpleListFilter):
    title = _("state")
    parameter_name = "active"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("1", _("Active")), ("0", _("Released"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Hold]) -> QuerySet[Hold]:
        return queryset if self.value() is None else queryset.filter(released_at__isnull=self.value() == "1")


@admin.register(Hold)
class HoldAdmin(ReadOnlyAdmin):
    """The holds, and Release. Holding is done on the Panic page."""

    seen_with = (PANIC,)
    list_display = ("at", "age", "scope", "reason", "by", "released_at", "released_by")
    list_filter = (ActiveFilter,)
    list_select_related = ("scope_user",)
    ordering = ("-at",)
    actions = ("release_selected",)

    @admin.display(description=_("age"))
    def age(self, hold: Hold) -> str:
        return words.age((hold.released_at or timezone.now()) - hold.at)

    @admin.display(description=_("scope"))
    def scope(self, hold: Hold) -> str:
        parts = [hold.scope_user.get_username()] if hold.scope_user else []
        return ", ".join([*parts, *filter(None, [hold.scope_model])]) or gettext("everything")

    @admin.action(description=_("Release selected"), permissions=["panic"])
    def release_selected(self, request: HttpRequest, queryset: QuerySet[Hold]) -> None:
        by = request.user.get_username()
        active = queryset.filter(released_at=None).values_list("pk", flat=True)
        released = sum(control.release(str(pk), by, SOURCE) for pk in list(active))
        messages.success(request, gettext("Released: %s. Nothing was sent by it.") % released)

    def has_panic_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(PANIC)


@admin.register(AuditEntry)
class AuditAdmin(ReadOnlyAdmin):
    """Who ordered what."""

    seen_with = (PANIC,)
    list_display = ("at", "verb", "by", "source", "target", "executions", "abort_reason", "reason", "refused")
    list_filter = ("verb", "refused", "source", "abort_reason")
    date_hierarchy = "at"
    ordering = ("-at",)
    search_fields = ("by", "target", "reason")


async def _stopped(targets: list[Target], by: str) -> Counts:
    ordered = await orders.stop(targets, by=by, source=SOURCE)
    return await orders.confirmed(ordered, control.CONFIRM_S)


def _day() -> list[Stop]:
    """The last day's aborts. Bounded by the indexed start: no run is older than its own time limit at its end."""
    since = timezone.now() - DAY
    oldest_start = since - timedelta(seconds=conf.limits().total_s)
    rows = ExecutionRecord.objects.filter(
        status=ExecutionStatus.ABORTED, started_at__gte=oldest_start, requested_at__gte=since
    )
    fields = rows.values_list("requested_at", "abort_reason", "upstream_closed_ms", "settled_ms")
    return [
        Stop(at=at, reason=reason, closed_ms=closed, settled_ms=settled)
        for at, reason, closed, settled in fields.order_by("-requested_at")[:PLOTTED_STOPS]
        if at is not None
    ]
