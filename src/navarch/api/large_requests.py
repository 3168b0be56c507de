"""Large requests begin one at a time, so that the rest of the server runs between two of them."""

import asyncio

from navarch.ports.clock import Clock

LARGE_BYTES = 2**14
"""Reading a request of this size takes about a millisecond, and one of the largest about a hundred.
"""


class Turnstile:
    """Lets one large request per turn of the event loop begin.

    Without it, forty that arrive together are all read before anything else runs. Only their start
    is held up, not what they wait for later.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()

    async def enter(self, size: int) -> None:
        """Return when a request of `size` bytes may begin."""
        if size < LARGE_BYTES:
            return
        async with self._lock:
            # A timer, unlike sleep(0), lets everything else that is ready run first.
            await self._clock.sleep(0.001)
