"""How long an answer of a model can be, as litellm's table says. Read as a table: litellm itself may ask a server."""

import sys


def most_output_tokens(name: str) -> int | None:
    """The most output tokens of one answer; None where nobody knows, or while litellm is not loaded."""
    litellm = sys.modules.get("litellm")
    table = getattr(litellm, "model_cost", {})
    provider, _, own_name = name.partition("/")
    row = table.get(name) or table.get(own_name, {})
    if row.get("litellm_provider") != provider:
        return None
    most = row.get("max_output_tokens")
    return most if isinstance(most, int) else None
