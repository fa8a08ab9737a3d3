"""The tools that come along, offered where `STUDIO_TOOLS` is not set: the time, arithmetic, and pages of the web."""

from kernel.tools.builtin.basics import calculate, current_time
from kernel.tools.builtin.web_page import read_web_page

__all__ = ["calculate", "current_time", "read_web_page"]
