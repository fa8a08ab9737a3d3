"""The doors: settings, URLs, the WebSocket contract and the pages."""
