"""The kernel's settings, read when used, so that tests can change them. Names and defaults: studio.settings."""

from django.conf import settings

from kernel.allowance import Allowance
from kernel.clocks import Limits


def limits() -> Limits:
    return Limits(
        total_s=settings.STUDIO_TIMEOUT_S,
        first_token_s=settings.STUDIO_FIRST_TOKEN_TIMEOUT_S,
        idle_s=settings.STUDIO_IDLE_TIMEOUT_S,
    )


def fast_lane() -> bool:
    return settings.STUDIO_FAST_LANE


def max_steps() -> int:
    return settings.STUDIO_MAX_STEPS


def allowance() -> Allowance:
    return Allowance(
        output_tokens=settings.STUDIO_MAX_OUTPUT_TOKENS,
        cost_usd=settings.STUDIO_MAX_COST_USD,
        repeated_calls=settings.STUDIO_MAX_REPEATED_CALLS,
    )


def tool_timeout_s() -> float:
    return settings.STUDIO_TOOL_TIMEOUT_S


def tool_modules() -> list[str]:
    return settings.STUDIO_TOOLS


def poll_s() -> float:
    return settings.STUDIO_POLL_S


def lease_s() -> float:
    return settings.STUDIO_LEASE_S


def shutdown_grace_s() -> float:
    return settings.STUDIO_SHUTDOWN_GRACE_S


def abort_on_disconnect() -> bool:
    return settings.STUDIO_ON_DISCONNECT == "abort"


def disconnect_grace_s() -> float:
    return settings.STUDIO_DISCONNECT_GRACE_S
