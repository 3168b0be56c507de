"""Large requests begin in short bursts, so that the rest of the server runs in between."""

import asyncio

from navarch.ports.clock import Clock

LARGE_BYTES = 2**14
"""Reading a request of this size takes about a millisecond, and one of the largest about a hundred.
"""
BURST_S = 0.003
"""How long large requests begin without a pause. One that takes longer is followed by a pause."""


class Turnstile:
    """Pauses between large requests, except between those that together take a moment.

    Without it, forty that arrive together are all read before anything else runs. Only their start
    is held up, not what they wait for later.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()
        self._paused_at = -BURST_S

    async def enter(self, size: int) -> None:
        """Return when a request of `size` bytes may begin."""
        if size < LARGE_BYTES:
            return
        async with self._lock:
            if self._clock.monotonic() - self._paused_at < BURST_S:
                return
            # A timer, unlike sleep(0), lets everything else that is ready run first.
            await self._clock.sleep(0.001)
            self._paused_at = self._clock.monotonic()
