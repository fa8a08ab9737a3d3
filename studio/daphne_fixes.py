"""What Daphne's WebSocket protocol cannot say and the contract needs. Held by tests/studio/test_daphne_fixes.py.

autobahn lets an application close with 1000 and 3000 to 4999 only, though RFC 6455 (7.4.1) gives servers 1001, 1009,
1011 and 1013 too; and it drops the connection of a frame over its limit without a close frame. Daphne has no setting
for either.
"""

from typing import Any

from daphne.ws_protocol import WebSocketProtocol

from studio.protocol import MESSAGE_MAX_BYTES

SERVER_CODES = {1001, 1009, 1011, 1012, 1013}

_close = WebSocketProtocol.serverClose
_connect = WebSocketProtocol.onConnect


def install() -> None:
    """Patch Daphne's protocol class. Doing it again changes nothing."""
    WebSocketProtocol.serverClose = _server_close
    WebSocketProtocol.onConnect = _on_connect


def _server_close(self: Any, code: int | None = None) -> None:
    if code in SERVER_CODES:
        self.sendCloseFrame(code=code)
    else:
        _close(self, code)


def _on_connect(self: Any, request: Any) -> Any:
    # Frames up to this size are read and refused with a reply; larger ones close the socket with 1009.
    self.maxMessagePayloadSize = self.maxFramePayloadSize = MESSAGE_MAX_BYTES
    self.failByDrop = False
    return _connect(self, request)
