"""The studio's page. It promises the frame of the page and who is asking; everything said comes over the socket."""

from django.contrib.auth.decorators import login_required
from django.contrib.staticfiles import finders
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import get_language
from django.views.decorators.cache import never_cache

LIBRARIES = (
    "vendor/marked/marked.esm.js",
    "vendor/dompurify/purify.es.mjs",
    "vendor/@highlightjs/cdn-assets/highlight.min.js",
)


@never_cache
@login_required
def studio_page(request: HttpRequest, session_key: str | None = None) -> HttpResponse:
    """The page, with the session `session_key` open, or a new one. Whether that session exists, the socket tells."""
    page = {
        "sessionKey": session_key,
        "userKey": f"{request.user.pk}:{request.user.get_username()}",  # whose the browser's memory is
        "userName": request.user.get_username(),
        "language": get_language(),
        "libraries": all(finders.find(path) for path in LIBRARIES),
        "urls": {"home": reverse("studio"), "login": reverse("login"), "session": reverse("session", args=["KEY"])},
    }
    return render(request, "studio/page.html", {"page": page})
