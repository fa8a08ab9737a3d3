"""Fixtures for the chat's tests."""

from tests.kernel.conftest import worker

__all__ = ["worker"]
