"""The listeners of a store."""

from collections.abc import Callable

from navarch.ports.store import Committed

Listener = Callable[[Committed], None]


class Subscribers:
    """Calls listeners after each commit, in the order in which they subscribed."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def join(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` from now on; return the function that ends the subscription."""
        self._listeners.append(listener)

        def leave() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return leave

    def notify(self, committed: Committed) -> None:
        """Call every listener; then raise the first error that one of them raised.

        The commit is durable, so a faulty listener must not keep it from the others.
        """
        first_error: Exception | None = None
        for listener in tuple(self._listeners):
            try:
                listener(committed)
            except Exception as error:  # noqa: BLE001 - raised below
                first_error = first_error or error
        if first_error is not None:
            raise first_error
