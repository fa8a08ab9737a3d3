"""The studio's pages. They promise the frame of a page and who is asking; everything said comes over the socket."""

from typing import Any

from django.contrib.auth.decorators import login_required, permission_required
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
    libraries = all(finders.find(path) for path in LIBRARIES)
    page = {**_page(request), "sessionKey": session_key, "language": get_language(), "libraries": libraries}
    return render(request, "studio/page.html", {"page": page})


@never_cache
@login_required
@permission_required("kernel.panic", raise_exception=True)
def runs_page(request: HttpRequest) -> HttpResponse:
    """The page of what runs everywhere; which runs, the socket tells."""
    return render(request, "studio/runs.html", {"page": _page(request)})


def _page(request: HttpRequest) -> dict[str, Any]:
    name = request.user.get_username()
    return {
        "userKey": f"{request.user.pk}:{name}",  # whose the browser's memory is
        "userName": name,
        "urls": {
            "home": reverse("studio"),
            "login": reverse("login"),
            "session": reverse("session", args=["KEY"]),
            "export": reverse("export_session", args=["KEY", "md"]).removesuffix("md") + "FORM",
        },
    }
