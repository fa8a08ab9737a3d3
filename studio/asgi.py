"""The ASGI application: pages by Django, `/ws/studio/` by Channels, and a drain before the process ends."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "studio.settings")

from django.core.asgi import get_asgi_application

# Django must be set up before anything that imports its models.
http = get_asgi_application()

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.urls import path

from studio import daphne_fixes, lifecycle
from studio.consumers import StudioConsumer

application = lifecycle.Lifecycle(
    ProtocolTypeRouter(
        {
            "http": http,
            "websocket": AuthMiddlewareStack(URLRouter([path("ws/studio/", StudioConsumer.as_asgi())])),
        }
    )
)
daphne_fixes.install(start=application.start, end=application.end)
