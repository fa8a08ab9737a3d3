"""The address under which a person takes a session of their own away as a file."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, StreamingHttpResponse
from django.utils.http import content_disposition_header
from django.utils.translation import get_language
from django.views.decorators.cache import never_cache

from chat import export
from chat.admission import own_session
from chat.errors import NotFound
from kernel import lanes


@never_cache
@login_required
async def export_session(request: HttpRequest, session_key: str, extension: str) -> StreamingHttpResponse:
    """The session as `md` or `json`, streamed. What is unknown and what is somebody else's is not found alike."""
    user = await request.auser()
    assert user.pk is not None  # or they would have been sent to the login
    try:
        session = await lanes.reads.run(own_session, session_key, user.pk)
    except NotFound:
        raise Http404 from None
    content_type, write = export.FORMATS[extension]
    response = StreamingHttpResponse(
        write(session, get_language() or ""), content_type=f"{content_type}; charset=utf-8"
    )
    response["Content-Disposition"] = content_disposition_header(
        as_attachment=True, filename=export.filename(session, extension)
    )
    return response
