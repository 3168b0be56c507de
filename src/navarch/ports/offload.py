"""The port for blocking calls, so that the event loop never waits for a disk."""

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Offload(Protocol):
    """Runs blocking calls one after the other, away from the event loop."""

    async def run(self, call: Callable[[], T]) -> T:
        """Return the result of `call`."""
