"""Changed copies of records: what `dataclasses.replace` does, at a fifth of its price.

That holds for those that are `drafted`; of another a copy is made the usual way.
"""

import dataclasses
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

__all__ = ["evolve"]

Record = TypeVar("Record")

if TYPE_CHECKING:
    # The type checker knows this one, and holds every field's new value against its type.
    from dataclasses import replace as evolve
else:

    def evolve(record: Record, /, **changes: object) -> Record:
        """Return `record` with `changes` made to it."""
        if isinstance(record, Struct):
            return replace(record, **changes)
        return dataclasses.replace(record, **changes)
