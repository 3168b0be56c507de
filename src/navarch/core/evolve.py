"""Changed copies of records."""

from typing import TYPE_CHECKING

__all__ = ["evolve"]

if TYPE_CHECKING:
    # mypy checks each new value against its field's type only through `dataclasses.replace`.
    from dataclasses import replace as evolve
else:
    from msgspec.structs import replace as evolve
