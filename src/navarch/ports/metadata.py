"""The ports for notices of a provider that a machine reads from its metadata service."""

from collections.abc import Callable, Sequence
from typing import Protocol

from navarch.core.errors import NavarchError
from navarch.core.instance import Notice


class MetadataError(NavarchError):
    """The metadata service did not respond, or its response was invalid."""


class NoticeSource(Protocol):
    """Reads one metadata service. Calls block for a minute at most."""

    @property
    def name(self) -> str:
        """The source's name, in logs."""

    @property
    def pause_s(self) -> float:
        """The pause between two calls; zero if `look` itself waits for changes."""

    def look(self) -> Sequence[Notice]:
        """Return every notice in force, possibly none. Raises MetadataError."""


class NoticeWatch(Protocol):
    """Watches for notices in the background, so that reading them never blocks."""

    def start(self, on_change: Callable[[], None]) -> None:
        """Start watching; call `on_change`, on any thread, when notices have changed."""

    def notices(self) -> Sequence[Notice] | None:
        """Return the notices in force without blocking; None until the first response."""

    def stop(self) -> None:
        """Stop, without waiting for pending responses."""
