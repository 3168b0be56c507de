"""Events: what changed and why, in the order in which it was decided."""

from collections.abc import Mapping
from datetime import datetime
from typing import NewType

import msgspec

Subject = NewType("Subject", str)
"""What an event is about: `node/training-3`, `pool/training`, `launch/…`, `command/…`."""


BY_HAND = "hand"
"""The fact `by` of what somebody asked for, as opposed to what was decided here."""


def about(kind: str, name: str) -> Subject:
    """Return the subject of that kind and name."""
    return Subject(f"{kind}/{name}")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One change and its reason, as a person would want to read it."""

    at: datetime
    about: Subject
    kind: str
    """What happened, as `noun.verb`: `node.requested`, `pool.scaled`."""
    reason: str
    because: tuple[Subject, ...] = ()
    """What else to look at to understand it: the state of those things at that moment."""
    facts: Mapping[str, str] = msgspec.field(default_factory=dict)


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """An event with its place in the journal."""

    number: int
    revision: int
    event: Event
