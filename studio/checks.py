"""What `manage.py check`, and so every start by `make run`, says of the studio's settings."""

import tempfile
from typing import Any

from django.conf import settings
from django.core import checks


@checks.register
def transcripts_can_be_written(**_: Any) -> list[checks.CheckMessage]:
    """STUDIO_TRANSCRIPT_DIR is a folder, or can be made one, and takes files. A turn goes on without, and is warned."""
    folder = settings.STUDIO_TRANSCRIPT_DIR
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return []
    except OSError as error:
        hint = "Correct STUDIO_TRANSCRIPT_DIR or the folder's rights. Without, conversations are in the database only."
        told = f"Transcripts cannot be written to {str(folder)!r}: {error}"
        return [checks.Warning(told, hint=hint, id="studio.W001")]
