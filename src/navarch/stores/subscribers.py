"""Who wants to hear of which commits."""

from collections.abc import Callable, Collection, Sequence

from navarch.core.fleet import Change, Move
from navarch.core.node import Phase
from navarch.ports.store import Committed, Matter, Topic

Listener = Callable[[Committed], None]

_EVERY_COMMIT = 1
_BITS: dict[Topic, int] = {topic: 2 << place for place, topic in enumerate([*Phase, *Matter])}
"""Each topic is a bit of a number, and a commit the sum of what it is about."""

_LAUNCHES, _GANGS = _BITS[Matter.LAUNCHES], _BITS[Matter.GANGS]
_RECOVERIES, _INCIDENTS = _BITS[Matter.RECOVERIES], _BITS[Matter.INCIDENTS]
_COMMANDS, _LEDGER = _BITS[Matter.COMMANDS], _BITS[Matter.LEDGER]
_FORGOTTEN = _BITS[Matter.FORGOTTEN]


class Subscribers:
    """Calls those who listen, in the order in which they have come.

    Most of them have no business with most commits: who says so is not called for those.
    """

    def __init__(self) -> None:
        self._listeners: list[tuple[Listener, int]] = []
        self._of: dict[int, tuple[Listener, ...]] = {}
        """Who hears of a commit, by what it is about: there are few kinds of commits."""

    def join(self, listener: Listener, about: Collection[Topic] | None) -> Callable[[], None]:
        """Call `listener` for what is `about` any of that from now on; return how to end it."""
        wanted = _EVERY_COMMIT if about is None else sum({_BITS[topic] for topic in about})
        seat = (listener, wanted)
        self._listeners.append(seat)
        self._of.clear()

        def leave() -> None:
            if seat in self._listeners:
                self._listeners.remove(seat)
                self._of.clear()

        return leave

    def tell(self, committed: Committed) -> None:
        """Call whoever wants to hear of this commit."""
        topics = _topics(committed.change, committed.moved)
        listeners = self._of.get(topics)
        if listeners is None:
            listeners = tuple([each for each, wanted in self._listeners if wanted & topics])
            self._of[topics] = listeners
        for listener in listeners:
            listener(committed)


def _topics(change: Change, moves: Sequence[Move]) -> int:
    """Return what a commit is about."""
    topics = _EVERY_COMMIT
    for before, node in moves:
        topics |= _BITS[node.phase]
        if before is None or before.launch is not node.launch or before.gone:
            topics |= _LAUNCHES
        if node.gang is not None:
            topics |= _GANGS
        if node.recovery is not None:
            topics |= _RECOVERIES
    if change.incidents or change.forget_incidents:
        topics |= _INCIDENTS
    if change.launches:
        topics |= _LEDGER
    if change.recoveries:
        topics |= _RECOVERIES
    if change.commands:
        topics |= _COMMANDS
    if change.forget_nodes:
        topics |= _FORGOTTEN
    return topics
