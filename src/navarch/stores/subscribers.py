"""The listeners of a store."""

from collections.abc import Callable, Collection, Sequence

from navarch.core.fleet import Change, Move
from navarch.core.node import Phase
from navarch.ports.store import Committed, Matter, Topic

Listener = Callable[[Committed], None]


class Subscribers:
    """Calls listeners after each commit, in the order in which they subscribed."""

    def __init__(self) -> None:
        self._listeners: list[tuple[Listener, frozenset[Topic] | None]] = []

    def join(self, listener: Listener, about: Collection[Topic] | None) -> Callable[[], None]:
        """Call `listener` from now on; return the function that ends the subscription."""
        entry = (listener, None if about is None else frozenset(about))
        self._listeners.append(entry)

        def leave() -> None:
            if entry in self._listeners:
                self._listeners.remove(entry)

        return leave

    def notify(self, committed: Committed) -> None:
        """Call every listener; then raise the first error that one of them raised.

        The commit is durable, so a faulty listener must not keep it from the others.
        """
        topics = _topics(committed.change, committed.moved)
        first_error: Exception | None = None
        for listener, about in tuple(self._listeners):
            if about is None or not about.isdisjoint(topics):
                try:
                    listener(committed)
                except Exception as error:  # noqa: BLE001 - raised below
                    first_error = first_error or error
        if first_error is not None:
            raise first_error


def _topics(change: Change, moves: Sequence[Move]) -> set[Topic]:
    """Return the topics of a commit."""
    topics: set[Topic] = set()
    for before, node in moves:
        topics.add(node.phase)
        if before is None or before.launch is not node.launch or before.phase is Phase.GONE:
            topics.add(Matter.LAUNCHES)
        if node.gang is not None:
            topics.add(Matter.GANGS)
        if node.recovery is not None:
            topics.add(Matter.RECOVERIES)
    if change.incidents or change.forget_incidents:
        topics.add(Matter.INCIDENTS)
    if change.launches:
        topics.add(Matter.LEDGER)
    if change.recoveries:
        topics.add(Matter.RECOVERIES)
    if change.commands:
        topics.add(Matter.COMMANDS)
    if change.forget_nodes:
        topics.add(Matter.FORGOTTEN)
    return topics
