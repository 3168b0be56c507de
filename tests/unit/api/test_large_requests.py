"""Large requests begin in short bursts, and everything else runs in between."""

import asyncio

from navarch.api.large_requests import BURST_S, LARGE_BYTES, Turnstile
from navarch.clock import SystemClock


class WorkClock(SystemClock):
    """A clock on which only what the test says takes time."""

    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        await asyncio.sleep(0)


def bursts(request_s: float, requests: int = 20) -> list[int]:
    """Return how many large requests run between two turns of something that is always ready."""
    clock, order = WorkClock(), [0]

    async def story() -> None:
        turnstile = Turnstile(clock)

        async def large() -> None:
            await turnstile.enter(LARGE_BYTES)
            order[-1] += 1
            clock.now_s += request_s

        async def probes() -> None:
            while sum(order) < requests:
                order.append(0)
                await asyncio.sleep(0)

        await asyncio.gather(probes(), *(large() for _ in range(requests)))

    asyncio.run(asyncio.wait_for(story(), 30))
    return [count for count in order if count]


def test_other_work_runs_between_any_two_large_requests_that_take_long() -> None:
    assert bursts(request_s=BURST_S) == [1] * 20


def test_large_requests_that_take_a_moment_do_not_pause_each() -> None:
    clock, pauses = WorkClock(), 0

    async def story() -> None:
        nonlocal pauses
        turnstile = Turnstile(clock)
        for _ in range(20):
            before = clock.now_s
            await turnstile.enter(LARGE_BYTES)
            pauses += clock.now_s > before
            clock.now_s += BURST_S / 4

    asyncio.run(story())
    assert 4 <= pauses <= 6


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
