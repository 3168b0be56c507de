"""Changed copies of records: what `dataclasses.replace` does, at a fifth of its price.

A fleet at work is one record replaced by the next, and a frozen record is slow to make the usual
way: every field is looked up by name, handed over by name and set by name. A copy is drafted
instead, as `navarch.core.drafting` tells.
"""

import dataclasses
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar

from navarch.core.drafting import twin_of

__all__ = ["evolve"]

Record = TypeVar("Record")

_Maker = Callable[[Any, dict[str, object]], Any]
"""Makes a copy of a record in which some fields have the values that it is given by name."""

_makers: dict[tuple[object, ...], _Maker | None] = {}
"""By the kind of record and the fields that change, in the order in which they are named: a
program has so many places where records are changed."""


if TYPE_CHECKING:
    # The type checker knows this one, and holds every field's new value against its type.
    from dataclasses import replace as evolve
else:

    def evolve(record: Record, /, **changes: object) -> Record:
        """Return `record` with `changes` made to it."""
        change = (type(record), *changes)
        try:
            make = _makers[change]
        except KeyError:
            make = _makers[change] = _maker(type(record), changes)
        return dataclasses.replace(record, **changes) if make is None else make(record, changes)


def _maker(kind: type, changes: Collection[str]) -> _Maker | None:
    """Return how to copy records of that kind; None where more belongs to it than its fields."""
    twin = twin_of(kind)
    known = [field.name for field in dataclasses.fields(kind)]
    if twin is None or not set(changes) <= set(known):
        return None
    lines = [
        f"copy.{name} = changes[{name!r}]" if name in changes else f"copy.{name} = record.{name}"
        for name in known
    ]
    lines.append("copy.__class__ = kind")
    if hasattr(kind, "__post_init__"):
        lines.append("copy.__post_init__()")
    text = "\n    ".join(["def make(record, changes):", "copy = twin()", *lines, "return copy"])
    names: dict[str, Any] = {"twin": twin, "kind": kind}
    exec(text, names)  # Nothing but the names of fields goes into it.
    made: _Maker = names["make"]
    return made
