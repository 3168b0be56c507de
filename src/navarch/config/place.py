"""Places: where in a file something stands."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A line and a column, both counted from one, as editors do."""

    line: int
    column: int


START = Place(1, 1)
