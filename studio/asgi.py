"""The ASGI application: pages by Django, `/ws/studio/` by Channels, and a drain before the process ends."""

import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "studio.settings")

from django.core.asgi import get_asgi_application

# Django must be set up before anything that imports its models.
http = get_asgi_application()

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.urls import path

from studio import daphne_fixes, lifecycle
from studio.consumers import StudioConsumer

sockets = AuthMiddlewareStack(URLRouter([path("ws/studio/", StudioConsumer.as_asgi())]))


async def websocket(scope: Any, receive: Any, send: Any) -> None:
    """Hand the consumer a send of its own, too: past the middleware, which looks at the login's session every time."""
    await sockets({**scope, "studio.send": send}, receive, send)


application = lifecycle.Lifecycle(ProtocolTypeRouter({"http": http, "websocket": websocket}))
daphne_fixes.install(start=application.start, end=application.end)
