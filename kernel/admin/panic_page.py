"""The admin's page for Panic: what it would hit, who it would hold, and one button that needs a confirmation."""

from typing import Any

from asgiref.sync import async_to_sync
from django import forms
from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from kernel import control, orders
from kernel.control import Counts, Ordered, Target
from kernel.models import Hold

SOURCE = "admin"
# Groups of live executions that the page names one by one.
SHOWN_GROUPS = 20


class PanicForm(forms.Form):
    """An empty user and an empty model mean everything."""

    user = forms.CharField(
        label=_("Only this user's"), required=False, max_length=150, help_text=_("A user name. Empty: everybody's.")
    )
    model = forms.CharField(label=_("Only with this model"), required=False, max_length=255)
    reason = forms.CharField(
        label=_("Reason"),
        required=False,
        max_length=1000,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_("Everyone who is held sees it."),
    )
    hold = forms.BooleanField(
        label=_("Hold: refuse new runs, and keep the queues, until somebody releases it"), required=False
    )
    confirmed = forms.BooleanField(
        label=_("Yes, stop all of this now"), error_messages={"required": _("Confirm that you mean it.")}
    )

    def clean_user(self) -> Any:
        name = self.cleaned_data["user"]
        if not name:
            return None
        user = get_user_model().objects.filter(username=name).first()
        if user is None:
            raise forms.ValidationError(_("There is no user with this name."))
        return user


def panic_page(request: HttpRequest, site: admin.AdminSite) -> HttpResponse:
    """GET shows what a panic of the scope in the address would hit; POST does it. Needs `kernel.panic`."""
    if not request.user.has_perm("kernel.panic"):
        raise PermissionDenied
    if request.method == "POST":
        form = PanicForm(request.POST)
        if form.is_valid():
            tell(request, *_panic(request.user.get_username(), form.cleaned_data))
            return redirect("admin:kernel_executionrecord_changelist")
    else:
        form = PanicForm(initial={name: request.GET.get(name, "") for name in ("user", "model")})
    return TemplateResponse(
        request, "admin/kernel/panic.html", {**site.each_context(request), "title": _("Panic"), **_context(form)}
    )


def tell(request: HttpRequest, counts: Counts, held: int = 0, hold: Hold | None = None) -> None:
    """Say what an order did, as a message on the next page."""
    if counts.failed:
        messages.error(request, gettext("The database failed. What this server owns was stopped; look again."))
        return
    told = gettext("Stopped: %(aborted)s. Not confirmed: %(unconfirmed)s. Already finished: %(finished)s.") % {
        "aborted": counts.aborted,
        "unconfirmed": counts.unconfirmed,
        "finished": counts.already_finished,
    }
    if hold is not None:
        told += " " + gettext("New runs are on hold; queued messages held: %s.") % held
    if counts.unconfirmed:
        told += " " + gettext("What is not confirmed is ordered: its owner obeys when it can. Look again.")
    messages.add_message(request, messages.WARNING if counts.unconfirmed else messages.SUCCESS, told)


def _panic(by: str, wanted: dict[str, Any]) -> tuple[Counts, int, Hold | None]:
    user_id = wanted["user"].pk if wanted["user"] else None
    ordered, counts = async_to_sync(_ordered_and_confirmed)(
        by=by, source=SOURCE, why=wanted["reason"], hold=wanted["hold"], user_id=user_id, model=wanted["model"]
    )
    held = orders.waiting(Target(user_id=user_id, model=wanted["model"] or None)) if ordered.hold else 0
    return counts, held, ordered.hold


async def _ordered_and_confirmed(**panic: Any) -> tuple[Ordered, Counts]:
    ordered = await orders.panic(**panic)
    return ordered, await orders.confirmed(ordered, control.CONFIRM_S)


def _context(form: PanicForm) -> dict[str, Any]:
    """What the page shows beside the form: what is live in the form's scope, and who has it."""
    user_name, model = (str(form[name].value() or "").strip() for name in ("user", "model"))
    user = get_user_model().objects.filter(username=user_name).first() if user_name else None
    target = Target(user_id=user.pk if user else None, model=model or None)
    rows = target.rows()
    groups = rows.values("user__username", "model", "kind").annotate(live=Count("pk")).order_by("-live")
    return {
        "form": form,
        "scoped": bool(user or model),
        "live": rows.count(),
        "groups": groups[:SHOWN_GROUPS],
        "waiting": orders.waiting(target),
        "holds": Hold.objects.active().select_related("scope_user").order_by("at"),
    }
