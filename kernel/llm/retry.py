"""Retries of one model call: the kernel's own, visible, ended at once by an abort, and never after the first output.

The SDKs' hidden retries are off, since they differ by provider and cannot be seen. `Retry-After` is honoured up to
`RETRY_AFTER_MAX_S`; without it the wait doubles, with jitter.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from kernel.abort import AbortSignal
from kernel.clocks import ProviderClock
from kernel.llm.model import CallDelta, Delta, Model, ModelError, ModelEvent, ModelRequest

ATTEMPTS = 4
BACKOFF_S = 1.0
BACKOFF_MAX_S = 20.0
RETRY_AFTER_MAX_S = 60.0

# Told with the number of the attempt that follows (2, 3 …): before the wait with its seconds, and after it with 0.
OnRetry = Callable[[int, float], None]


async def stream(
    model: Model, request: ModelRequest, *, signal: AbortSignal, clock: ProviderClock, on_retry: OnRetry
) -> AsyncGenerator[ModelEvent, None]:
    """Stream one call of `model`, asking again while that is allowed. Raises `ModelError` or `ExecutionAborted`."""
    for attempt in range(1, ATTEMPTS + 1):
        signal.raise_if_aborted()
        begun = False
        clock.request()
        try:
            async with aclosing(model.stream(request)) as events:
                async for event in events:
                    if isinstance(event, Delta | CallDelta):
                        begun = True
                        clock.output()
                    yield event
            return
        except ModelError as error:
            # An abort may come back wrapped as a provider's error: it is never retried.
            signal.raise_if_aborted()
            if begun or not error.retryable or attempt == ATTEMPTS:
                raise
            delay_s = wait_s(attempt, error.retry_after_s)
        finally:
            clock.rest()
        on_retry(attempt + 1, delay_s)
        await asyncio.sleep(delay_s)
        on_retry(attempt + 1, 0)


def wait_s(attempt: int, retry_after_s: float | None) -> float:
    """How long to wait after the failed `attempt` (1, 2 …), in seconds."""
    if retry_after_s is not None:
        return min(max(retry_after_s, 0.0), RETRY_AFTER_MAX_S)
    return min(BACKOFF_S * 2 ** (attempt - 1), BACKOFF_MAX_S) * random.uniform(0.75, 1.25)  # noqa: S311  jitter
