"""The names of machines, in the order of arrival."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from navarch.core.ids import NodeId


@dataclass(slots=True)
class Roster:
    """Names in insertion order, with constant-time access by position."""

    _names: list[NodeId] = field(default_factory=list)
    _numbers: list[int] = field(default_factory=list)
    """The number of each name's insertion, for finding its position when it is removed."""
    _number_of: dict[NodeId, int] = field(default_factory=dict)
    _arrivals: int = 0

    @property
    def names(self) -> Sequence[NodeId]:
        """All names; the sequence is live."""
        return self._names

    def add(self, name: NodeId) -> None:
        """Append a name; a name that is already present keeps its position."""
        if name in self._number_of:
            return
        self._number_of[name] = self._arrivals
        self._names.append(name)
        self._numbers.append(self._arrivals)
        self._arrivals += 1

    def remove(self, name: NodeId) -> None:
        """Remove a name, if present."""
        number = self._number_of.pop(name, None)
        if number is not None:
            place = bisect_left(self._numbers, number)
            del self._names[place], self._numbers[place]
