"""One-time login links: how the first operator gets in, on a machine that has no default password.

A link logs in once, at the press of a button (whatever merely looks at it does not use it up), and expires after
`settings.PASSWORD_RESET_TIMEOUT` seconds.
"""

from django.conf import settings
from django.contrib.auth import get_user_model, login
from django.contrib.auth.models import User
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods


class LoginTokens(PasswordResetTokenGenerator):
    """Tokens that any login of their user makes invalid."""

    key_salt = "studio.login_link"

    def _make_hash_value(self, user: User, timestamp: int) -> str:
        # Django leaves the microseconds out: a link used within the second of an earlier login would stay valid.
        return f"{super()._make_hash_value(user, timestamp)}{user.last_login and user.last_login.isoformat()}"


tokens = LoginTokens()


def make_login_link(user: User, base_url: str) -> str:
    """A link that logs `user` in once, on the studio at `base_url`."""
    uidb64 = urlsafe_base64_encode(force_bytes(user.pk))
    return base_url.rstrip("/") + reverse("login_by_link", args=[uidb64, tokens.make_token(user)])


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def login_by_link(request: HttpRequest, uidb64: str, token: str) -> HttpResponse:
    """Ask for confirmation, then log in and go to the studio; a used, expired or wrong link is told what to do."""
    user = _user(uidb64)
    if user is None or not tokens.check_token(user, token):
        return _page(request, None)
    if request.method != "POST":
        return _page(request, user)
    if not _take(user):
        return _page(request, None)
    login(request, user, backend=settings.AUTHENTICATION_BACKENDS[0])
    return redirect("studio")


def _user(uidb64: str) -> User | None:
    try:
        return get_user_model().objects.filter(pk=urlsafe_base64_decode(uidb64).decode(), is_active=True).first()
    except ValueError:
        return None


def _take(user: User) -> bool:
    """Use the link up: of two who press at once, one wins."""
    same = get_user_model().objects.filter(pk=user.pk, last_login=user.last_login)
    return bool(same.update(last_login=timezone.now()))


def _page(request: HttpRequest, user: User | None) -> HttpResponse:
    return render(request, "studio/login_link.html", {"link_user": user}, status=200 if user else 410)
