"""JSON as the product writes and reads it: fast, and complete. Pure.

A model may write numbers of any size into the arguments of a tool; the fast serialiser knows 64 bits only.
"""

import json
from typing import Any

import orjson

loads = json.loads


def dumps(value: Any) -> str:
    """`value` as JSON text."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # an integer beyond 64 bits
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
