"""What the checks of a start say."""

from pathlib import Path

from studio.checks import transcripts_can_be_written


def test_a_folder_that_takes_files_is_nothing_to_tell(settings, tmp_path: Path) -> None:
    settings.STUDIO_TRANSCRIPT_DIR = tmp_path / "new" / "transcripts"
    assert transcripts_can_be_written() == []
    assert list(settings.STUDIO_TRANSCRIPT_DIR.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_warned_of(settings, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings.STUDIO_TRANSCRIPT_DIR = tmp_path / "file" / "transcripts"
    (warning,) = transcripts_can_be_written()
    assert str(settings.STUDIO_TRANSCRIPT_DIR) in warning.msg
    assert "STUDIO_TRANSCRIPT_DIR" in warning.hint
    assert not warning.is_serious()
