"""Large requests begin one at a time, and everything else runs in between."""

import asyncio

from navarch.api.large_requests import LARGE_BYTES, Turnstile
from navarch.clock import SystemClock


def test_other_work_runs_between_any_two_large_requests() -> None:
    async def story() -> None:
        turnstile = Turnstile(SystemClock())
        order: list[str] = []

        async def large() -> None:
            await turnstile.enter(LARGE_BYTES)
            order.append("large")

        async def probes() -> None:
            while order.count("large") < 20:
                order.append("probe")
                await asyncio.sleep(0)

        probing = asyncio.create_task(probes())
        await asyncio.gather(*(large() for _ in range(20)))
        await probing
        text = " ".join(order)
        assert "large large" not in text

    asyncio.run(story())


def test_small_requests_begin_at_once() -> None:
    async def story() -> None:
        turnstile = Turnstile(SystemClock())
        waiting = asyncio.create_task(turnstile.enter(2**20))
        await asyncio.sleep(0)
        entering = turnstile.enter(LARGE_BYTES - 1)
        try:
            entering.send(None)
        except StopIteration:
            pass
        else:
            raise AssertionError("a small request waited")
        await waiting

    asyncio.run(story())
