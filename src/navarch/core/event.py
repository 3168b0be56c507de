"""Events: changes and their reasons, in the order of the decisions."""

from collections.abc import Mapping
from datetime import datetime
from typing import NewType

import msgspec

Subject = NewType("Subject", str)
"""The subject of an event: `node/training-3`, `pool/training`, `launch/…`, `command/…`."""


BY_HAND = "hand"
"""The value of the fact `by` for requests of users, as opposed to decisions of Navarch."""


def about(kind: str, name: str) -> Subject:
    """Return the subject of that kind and name."""
    return Subject(f"{kind}/{name}")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One change and its reason, readable by an operator."""

    at: datetime
    about: Subject
    kind: str
    """The kind of change, as `noun.verb`: `node.requested`, `pool.scaled`."""
    reason: str
    because: tuple[Subject, ...] = ()
    """Other subjects that explain the event by their state at that moment."""
    facts: Mapping[str, str] = msgspec.field(default_factory=dict)


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """An event with its place in the journal."""

    number: int
    revision: int
    event: Event
