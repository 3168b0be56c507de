"""The ports for time, chance and threads."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol, TypeVar


class Clock(Protocol):
    """The only source of time in Navarch."""

    def now(self) -> datetime:
        """Return wall time, timezone-aware, in UTC."""

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start; never decreases."""

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Suspend the caller for `seconds`."""


class Entropy(Protocol):
    """The only source of randomness in Navarch."""

    def uniform(self, low: float, high: float) -> float:
        """Return a uniformly distributed number from `low` to `high`."""

    def new_id(self, kind: str) -> str:
        """Return a fresh identifier such as `launch-4f21c9…`, never returned before."""

    def secret(self) -> bytes:
        """Return 32 unpredictable bytes."""


T = TypeVar("T")


class Offload(Protocol):
    """Runs blocking calls one after the other, away from the event loop."""

    async def run(self, call: Callable[[], T]) -> T:
        """Return the result of `call`."""
