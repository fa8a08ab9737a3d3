"""The one patience of all tests: everything is waited for, and nothing is waited for longer than this."""

READY_TIMEOUT_S = 20.0
