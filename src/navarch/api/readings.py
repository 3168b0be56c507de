"""Readings of heartbeats: one that is no usable number is dropped, and not the heartbeat.

A node whose sensor fails is alive. NaN stands for a dropped reading; the one before stays.
"""

import json
from collections.abc import Container
from typing import Any

from navarch.api.limits import INT_MAX

NAN = float("nan")
_WORDS = frozenset({"NaN", "Infinity", "-Infinity"})


def load_heartbeat(body: bytes, dropped: object, without: Container[str] = ()) -> Any:  # noqa: ANN401
    """Return a heartbeat in JSON with `dropped` for every reading that is no usable number.

    Such readings are left out instead if their names are in `without`. Raises ValueError or
    RecursionError if it cannot be read.
    """
    beat = json.loads(body)
    if isinstance(beat, dict) and isinstance(beat.get("metrics"), dict):
        beat["metrics"] = _cleaned(beat["metrics"], dropped, without)
    return beat


def _cleaned(value: Any, dropped: object, without: Container[str]) -> Any:  # noqa: ANN401
    if isinstance(value, list):
        return [_cleaned(item, dropped, without) for item in value]
    if not isinstance(value, dict):
        return value
    unusable = {name for name, item in value.items() if _is_unusable(item)}
    return {
        name: dropped if name in unusable else _cleaned(item, dropped, without)
        for name, item in value.items()
        if name not in unusable or name not in without
    }


def _is_unusable(item: object) -> bool:
    if isinstance(item, int | float):
        return not abs(item) <= INT_MAX
    return item is None or (isinstance(item, str) and item in _WORDS)
