"""The names of machines, in the order of arrival."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from navarch.core.ids import NodeId


@dataclass(slots=True)
class Roster:
    """Names that come and go, each to be had by its place without going through the others."""

    _names: list[NodeId] = field(default_factory=list)
    _numbers: list[int] = field(default_factory=list)
    """The number of each name's arrival, by which its place is found when it leaves."""
    _number_of: dict[NodeId, int] = field(default_factory=dict)
    _arrivals: int = 0

    @property
    def names(self) -> Sequence[NodeId]:
        """All names; the sequence is live."""
        return self._names

    def add(self, name: NodeId) -> None:
        """Put a name at the end; one that is there already keeps its place."""
        if name in self._number_of:
            return
        self._number_of[name] = self._arrivals
        self._names.append(name)
        self._numbers.append(self._arrivals)
        self._arrivals += 1

    def remove(self, name: NodeId) -> None:
        """Take a name off, if it is there."""
        number = self._number_of.pop(name, None)
        if number is not None:
            place = bisect_left(self._numbers, number)
            del self._names[place], self._numbers[place]
