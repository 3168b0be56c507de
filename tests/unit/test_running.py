"""Running a simulation."""

import asyncio
import gc

import pytest

from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.sim.kernel.running import run_simulated


class Vast:
    """What came of a story that would fill books."""

    spelled_out = 0

    def __repr__(self) -> str:
        self.spelled_out += 1
        return "and so on"


def test_what_comes_of_a_story_is_returned_without_being_spelled_out() -> None:
    vast = Vast()

    async def story() -> Vast:
        await SimClock().sleep(3600)
        return vast

    assert run_simulated(story()) is vast
    assert vast.spelled_out == 0


def test_what_goes_wrong_in_a_story_is_raised() -> None:
    async def story() -> None:
        await SimClock().sleep(1)
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        run_simulated(story())


def test_a_timer_that_was_called_off_may_be_the_last_there_was() -> None:
    rang: list[str] = []

    async def story() -> None:
        clock = SimClock()
        clock.loop.call_at(5.0, rang.append, "kept")
        clock.loop.call_at(5.0, rang.append, "called off").cancel()
        await clock.sleep_until(5.0)
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
        clock.loop.call_at(5.0, order.append, "first")
        clock.loop.call_at(5.0, order.append, "second")
        third = asyncio.create_task(sleeper("third"))
        await clock.sleep(0)
        clock.loop.call_at(5.0, order.append, "fourth")
        fifth = asyncio.create_task(sleeper("fifth"))
        await clock.sleep(0)
        clock.loop.call_at(5.0, order.append, "sixth")
        await asyncio.gather(third, fifth)
        await clock.sleep(1)

    run_simulated(story())
    assert order == ["first", "second", "third", "fourth", "fifth", "sixth"]


def test_a_sleeper_that_is_cancelled_wakes_at_once_and_is_told_why() -> None:
    async def story() -> tuple[float, tuple[object, ...]]:
        clock = SimClock()
        sleeper = asyncio.ensure_future(clock.sleep(100))
        await clock.sleep(3)
        sleeper.cancel("enough")
        with pytest.raises(asyncio.CancelledError) as told:
            await sleeper
        return clock.monotonic(), told.value.args

    assert run_simulated(story()) == (3.0, ("enough",))


def test_a_sleeper_may_be_cancelled_at_the_very_moment_of_waking() -> None:
    woken: list[str] = []

    async def story() -> None:
        clock = SimClock()

        async def sleep() -> None:
            try:
                await clock.sleep_until(5.0)
                woken.append("in time")
            except asyncio.CancelledError:
                woken.append("cancelled")
                await clock.sleep(2)
                woken.append(f"at {clock.monotonic():g}")
                raise

        # Not asleep yet, so that what rings first at that moment calls it off.
        sleeper = asyncio.ensure_future(sleep())
        clock.loop.call_at(5.0, sleeper.cancel)
        with pytest.raises(asyncio.CancelledError):
            await sleeper

    run_simulated(story())
    assert woken == ["cancelled", "at 7"]


def test_a_sleep_can_be_limited_and_sleeps_gathered() -> None:
    async def story() -> float:
        clock = SimClock()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(clock.sleep(10), timeout=1)
        await asyncio.gather(clock.sleep(2), clock.sleep(4))
        return clock.monotonic()

    assert run_simulated(story()) == 5.0


def test_those_who_wake_together_wake_in_the_order_in_which_they_lay_down() -> None:
    woken: list[int] = []

    async def story() -> None:
        clock = SimClock()

        async def sleep(name: int) -> None:
            await clock.sleep_until(60.0)
            woken.append(name)

        await asyncio.gather(*[sleep(name) for name in range(5)])

    run_simulated(story())
    assert woken == [0, 1, 2, 3, 4]


def test_sleeps_leave_nothing_to_be_searched_for_even_if_cut_short() -> None:
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


def test_who_was_to_be_called_is_called_after_another_has_failed() -> None:
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


def test_who_is_stopped_calls_whom_it_was_to_call_by_then_and_the_others_when_it_runs_again() -> (
    None
):
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


def test_a_stop_that_something_went_wrong_before_stops_nothing_later() -> None:
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


def test_what_a_moment_brings_about_comes_before_what_is_set_for_that_moment_in_the_course() -> (
    None
):
    called: list[str] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()

        def first() -> None:
            loop.call_at(5.0, called.append, "set for the moment that has come")
            loop.call_soon(second)

        def second() -> None:
            called.append("called")
            loop.call_soon(called.append, "called by the one who was called")

        loop.call_at(5.0, first)
        loop.call_at(5.0, called.append, "set before")
        await asyncio.sleep(6)

    run_simulated(story())
    assert called == [
        "set before",
        "called",
        "called by the one who was called",
        "set for the moment that has come",
    ]


def test_who_was_called_off_is_not_called() -> None:
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
