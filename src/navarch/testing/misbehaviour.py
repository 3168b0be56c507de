"""Extensions that misbehave, to prove that the fleet goes on without them.

    remediator = misbehaving(MyRemediator(), switch)
    switch.how = Misbehaviour.RAISES

A world with such an extension must keep every sound machine, replace broken ones in other pools,
and go on as before once the switch is off.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from inspect import iscoroutinefunction
from typing import Any, TypeVar

T = TypeVar("T")

STUBBORN_S = 600.0
"""How long a call goes on that ignores its cancellation."""


class Misbehaviour(StrEnum):
    """What an extension may do instead of its work."""

    RAISES = "raises"
    HANGS = "hangs"
    """Only where it is awaited; elsewhere it raises."""
    IGNORES_CANCELLATION = "ignores cancellation"
    CANCELS = "cancels"
    EXITS = "exits"
    RETURNS_NOTHING = "returns nothing"
    RETURNS_NONSENSE = "returns nonsense"


@dataclass(slots=True)
class Switch:
    """Says whether, and how, an extension misbehaves at the moment."""

    how: Misbehaviour | None = None
    calls: int = field(default=0)
    """The calls that misbehaved."""


def misbehaving(part: T, switch: Switch) -> T:
    """Return `part` with methods that misbehave as `switch` says.

    The result has the abilities of `part`: the same public methods and attributes.
    """
    members: dict[str, object] = {}
    for name in dir(part):
        if not name.startswith("_"):
            found = getattr(part, name)
            members[name] = _method(part, name, switch) if callable(found) else _value(part, name)
    made: Any = type(f"Misbehaving{type(part).__name__}", (), members)()
    return made  # type: ignore[no-any-return]


def _value(part: object, name: str) -> property:
    return property(lambda _: getattr(part, name))


def _method(part: object, name: str, switch: Switch) -> Callable[..., object]:
    method = getattr(part, name)
    if not iscoroutinefunction(method):

        def call(_self: object, *args: object, **kwargs: object) -> object:
            how = switch.how
            if how is None:
                return method(*args, **kwargs)
            switch.calls += 1
            return _misbehave(how)

        call.__name__ = name
        return call

    async def call_async(_self: object, *args: object, **kwargs: object) -> object:
        how = switch.how
        if how is None:
            return await method(*args, **kwargs)
        switch.calls += 1
        if how is Misbehaviour.HANGS:
            await asyncio.Event().wait()
        if how is Misbehaviour.IGNORES_CANCELLATION:
            await _ignore_cancellation()
        return _misbehave(how)

    call_async.__name__ = name
    return call_async


def _misbehave(how: Misbehaviour) -> object:
    """Return or raise what an extension must not."""
    if how is Misbehaviour.RETURNS_NOTHING:
        return None
    if how is Misbehaviour.RETURNS_NONSENSE:
        return "nonsense"
    if how is Misbehaviour.CANCELS:
        raise asyncio.CancelledError("by an extension")
    if how is Misbehaviour.EXITS:
        raise SystemExit("by an extension")
    raise RuntimeError("an extension failed")


async def _ignore_cancellation() -> None:
    """Wait in spite of every cancellation, as a loop with a bare `except` does."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + STUBBORN_S
    while loop.time() < ends_at:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(ends_at - loop.time())  # noqa: TID251 - virtual time passes
