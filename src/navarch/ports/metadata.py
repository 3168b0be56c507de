"""What a machine can learn from its provider about its own future."""

from collections.abc import Callable, Sequence
from typing import Protocol

from navarch.core.errors import NavarchError
from navarch.core.notice import Notice


class MetadataError(NavarchError):
    """The metadata service did not answer, or not with sense."""


class NoticeSource(Protocol):
    """Asks one metadata service. Calls block, but never for longer than a minute."""

    @property
    def name(self) -> str:
        """The source's name, in logs."""
        ...

    @property
    def pause_s(self) -> float:
        """How long to wait between two answers; nothing where `look` itself waits for news."""
        ...

    def look(self) -> Sequence[Notice]:
        """Return every notice that stands; none is an answer too. Raises MetadataError."""
        ...


class NoticeWatch(Protocol):
    """Keeps an eye on what is announced, so that nobody has to wait for an answer."""

    def start(self, on_change: Callable[[], None]) -> None:
        """Begin; `on_change` is called, on any thread, when there is something new to read."""
        ...

    def notices(self) -> Sequence[Notice] | None:
        """Return what stands, at once; None while nothing is known."""
        ...

    def stop(self) -> None:
        """End, without waiting for answers that are still out."""
        ...
