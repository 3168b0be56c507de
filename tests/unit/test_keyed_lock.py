"""Calls with the same key run one after the other, in the order in which they were made."""

import asyncio
from collections.abc import Callable, Coroutine

from navarch.service.keyed_lock import KeyedLock

HOPS = 5
"""More steps of the event loop than any action here takes."""


class Calls:
    """Starts calls that hold a key until they are released, and records their order."""

    def __init__(self) -> None:
        self.lock = KeyedLock()
        self.log: list[str] = []
        self.released: dict[str, asyncio.Event] = {}

    async def call(self, name: str, key: str = "k") -> None:
        self.released[name] = asyncio.Event()
        await self.lock.take(key, self._hold, name, key)
        self.log.append(f"{name} done")

    async def _hold(self, name: str, key: str) -> None:
        self.log.append(f"{name} holds {key}")
        await self.released[name].wait()

    async def start(self, *calls: Coroutine[object, object, None]) -> list[asyncio.Task[None]]:
        tasks = [asyncio.ensure_future(call) for call in calls]
        await self.settle()
        return tasks

    async def release(self, name: str) -> None:
        self.released[name].set()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(HOPS):
            await asyncio.sleep(0)


def run(story: Callable[[Calls], Coroutine[object, object, None]]) -> list[str]:
    async def play() -> list[str]:
        calls = Calls()
        await story(calls)
        assert not calls.lock._locks, "no lock is kept of a key that is free"
        return calls.log

    return asyncio.run(play())


IN_ORDER = ["a holds k", "a done", "b holds k", "b done", "c holds k", "c done"]


def test_calls_with_one_key_run_in_the_order_in_which_they_were_made() -> None:
    async def story(calls: Calls) -> None:
        await calls.start(*(calls.call(name) for name in "abc"))
        for name in "abc":
            await calls.release(name)

    assert run(story) == IN_ORDER


def test_calls_with_different_keys_run_at_the_same_time() -> None:
    async def story(calls: Calls) -> None:
        await calls.start(calls.call("a"), calls.call("b", "other"))
        await calls.release("b")
        await calls.release("a")

    assert run(story) == ["a holds k", "b holds other", "b done", "a done"]


def test_a_call_made_while_the_key_changes_hands_runs_after_those_that_waited() -> None:
    async def story(calls: Calls) -> None:
        await calls.start(calls.call("a"), calls.call("b"))
        calls.released["a"].set()
        await asyncio.sleep(0)
        await calls.start(calls.call("c"))
        await calls.release("b")
        await calls.release("c")

    assert run(story) == IN_ORDER


def test_a_cancelled_waiter_is_skipped() -> None:
    async def story(calls: Calls) -> None:
        _, second, _ = await calls.start(*(calls.call(name) for name in "abc"))
        second.cancel()
        await calls.settle()
        await calls.release("a")
        await calls.release("c")
        assert second.cancelled()

    assert run(story) == ["a holds k", "a done", "c holds k", "c done"]


def test_a_waiter_cancelled_as_it_receives_the_key_passes_it_on() -> None:
    async def story(calls: Calls) -> None:
        first, second, _ = await calls.start(*(calls.call(name) for name in "abc"))
        calls.released["a"].set()
        while not first.done():
            await asyncio.sleep(0)
            if "a done" in calls.log:
                second.cancel()
                break
        await calls.settle()
        await calls.release("c")
        assert second.cancelled()

    assert run(story) == ["a holds k", "a done", "c holds k", "c done"]


def test_a_cancelled_holder_releases_the_key() -> None:
    async def story(calls: Calls) -> None:
        first, _ = await calls.start(calls.call("a"), calls.call("b"))
        first.cancel()
        await calls.settle()
        await calls.release("b")

    assert run(story) == ["a holds k", "b holds k", "b done"]
