"""The virtual event loop: results, timers, sleeps and call order."""

import asyncio
import gc

import pytest

from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop, run_simulated


class CostlyRepr:
    """A result that counts calls of its repr."""

    repr_calls = 0

    def __repr__(self) -> str:
        self.repr_calls += 1
        return "and so on"


def test_the_result_of_a_simulation_is_returned_without_calling_its_repr() -> None:
    result = CostlyRepr()

    async def story() -> CostlyRepr:
        await SimClock().sleep(3600)
        return result

    assert run_simulated(story()) is result
    assert result.repr_calls == 0


def test_an_error_in_a_simulation_is_raised() -> None:
    async def story() -> None:
        await SimClock().sleep(1)
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        run_simulated(story())


def test_the_last_timer_can_be_a_cancelled_one() -> None:
    rang: list[str] = []

    async def story() -> None:
        clock = SimClock()
        asyncio.get_running_loop().call_at(5.0, rang.append, "kept")
        asyncio.get_running_loop().call_at(5.0, rang.append, "called off").cancel()
        await clock.sleep(5.0)
        for _ in range(3):
            await clock.sleep(0)

    run_simulated(story())
    assert rang == ["kept"]


def test_timers_due_at_the_same_instant_run_in_the_order_in_which_they_were_set() -> None:
    order: list[str] = []

    async def sleeper(name: str) -> None:
        await SimClock().sleep(5)
        order.append(name)

    async def story() -> None:
        clock = SimClock()
        asyncio.get_running_loop().call_at(5.0, order.append, "first")
        asyncio.get_running_loop().call_at(5.0, order.append, "second")
        third = asyncio.create_task(sleeper("third"))
        await clock.sleep(0)
        asyncio.get_running_loop().call_at(5.0, order.append, "fourth")
        fifth = asyncio.create_task(sleeper("fifth"))
        await clock.sleep(0)
        asyncio.get_running_loop().call_at(5.0, order.append, "sixth")
        await asyncio.gather(third, fifth)
        await clock.sleep(1)

    run_simulated(story())
    assert order == ["first", "second", "third", "fourth", "fifth", "sixth"]


def test_a_cancelled_sleep_ends_at_once_with_the_cancel_message() -> None:
    async def story() -> tuple[float, tuple[object, ...]]:
        clock = SimClock()
        sleeper = asyncio.ensure_future(clock.sleep(100))
        await clock.sleep(3)
        sleeper.cancel("enough")
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await sleeper
        return clock.monotonic(), cancelled.value.args

    assert run_simulated(story()) == (3.0, ("enough",))


def test_a_sleep_can_be_cancelled_at_the_moment_it_ends() -> None:
    woken: list[str] = []

    async def story() -> None:
        clock = SimClock()

        async def sleep() -> None:
            try:
                await clock.sleep(5.0)
                woken.append("in time")
            except asyncio.CancelledError:
                woken.append("cancelled")
                await clock.sleep(2)
                woken.append(f"at {clock.monotonic():g}")
                raise

        # The sleep has not begun, so the first timer of that moment cancels it.
        sleeper = asyncio.ensure_future(sleep())
        asyncio.get_running_loop().call_at(5.0, sleeper.cancel)
        with pytest.raises(asyncio.CancelledError):
            await sleeper

    run_simulated(story())
    assert woken == ["cancelled", "at 7"]


def test_sleeps_work_with_timeouts_and_gather() -> None:
    async def story() -> float:
        clock = SimClock()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(clock.sleep(10), timeout=1)
        await asyncio.gather(clock.sleep(2), clock.sleep(4))
        return clock.monotonic()

    assert run_simulated(story()) == 5.0


def test_sleeps_that_end_together_end_in_the_order_they_began() -> None:
    woken: list[int] = []

    async def story() -> None:
        clock = SimClock()

        async def sleep(name: int) -> None:
            await clock.sleep(60.0)
            woken.append(name)

        await asyncio.gather(*[sleep(name) for name in range(5)])

    run_simulated(story())
    assert woken == [0, 1, 2, 3, 4]


def test_finished_and_cancelled_sleeps_leave_no_cyclic_garbage() -> None:
    async def story() -> int:
        clock = SimClock()
        gc.collect()
        gc.disable()
        try:
            for _ in range(100):
                await clock.sleep(1)
                sleeper = asyncio.ensure_future(clock.sleep(5))
                await clock.sleep(1)
                sleeper.cancel()
                await asyncio.wait([sleeper])
            return gc.collect()
        finally:
            gc.enable()

    assert run_simulated(story()) < 10


def test_remaining_callbacks_run_after_one_has_failed() -> None:
    called: list[str] = []

    def fail() -> None:
        raise LookupError("lost")

    loop = SimLoop()
    loop.call_soon(called.append, "before")
    loop.call_soon(fail)
    loop.call_soon(called.append, "after")
    with pytest.raises(LookupError, match="lost"):
        loop.run_forever()
    assert called == ["before"]
    loop.run_until_complete(asyncio.sleep(0))
    assert called == ["before", "after"]
    loop.close()


def test_stop_runs_ready_callbacks_and_leaves_later_ones_for_the_next_run() -> None:
    called: list[str] = []
    loop = SimLoop()

    def stop() -> None:
        loop.stop()
        loop.stop()
        loop.call_soon(called.append, "later")

    loop.call_soon(stop)
    loop.call_soon(called.append, "now")
    loop.run_forever()
    assert called == ["now"]
    loop.run_until_complete(asyncio.sleep(0))
    assert called == ["now", "later"]
    loop.close()


def test_a_stop_before_an_error_does_not_stop_the_next_run() -> None:
    def fail() -> None:
        raise LookupError("lost")

    loop = SimLoop()
    loop.call_soon(loop.stop)
    loop.call_soon(fail)
    with pytest.raises(LookupError, match="lost"):
        loop.run_forever()
    loop.run_until_complete(asyncio.sleep(5))
    assert loop.time() == 5.0
    loop.close()


def test_callbacks_of_a_moment_run_before_timers_added_for_that_moment() -> None:
    called: list[str] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()

        def first() -> None:
            loop.call_at(5.0, called.append, "timer added for this moment")
            loop.call_soon(second)

        def second() -> None:
            called.append("called")
            loop.call_soon(called.append, "callback of the callback")

        loop.call_at(5.0, first)
        loop.call_at(5.0, called.append, "earlier timer")
        await asyncio.sleep(6)

    run_simulated(story())
    assert called == [
        "earlier timer",
        "called",
        "callback of the callback",
        "timer added for this moment",
    ]


def test_cancelled_callbacks_are_not_called() -> None:
    called: list[str] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        soon, later = loop.call_soon(called.append, "soon"), loop.call_later(5, called.append, "at")
        assert later.when() == 5.0
        for handle in (soon, later):
            assert not handle.cancelled()
            handle.cancel()
            handle.cancel()
            assert handle.cancelled()
        await asyncio.sleep(10)

    run_simulated(story())
    assert called == []
