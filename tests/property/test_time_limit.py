"""A limit kept by one timer ends every call when, and as, a timer of its own would."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from navarch.control.time_limit import TimeLimit
from navarch.sim.kernel.running import run_simulated

LIMIT_S = 10.0

Call = Callable[[], Awaitable[str]]
Kept = Callable[[Call], Awaitable[str]]


@dataclass(frozen=True)
class Plan:
    """One call: all that happens at once to different ones happens in no order to rely on."""

    begins_s: int
    takes_s: int
    cancelled_s: int | None
    goes_on_s: int
    """For how long it goes on once it is told to stop; 0: not at all."""
    fails: bool


plans = st.lists(
    st.builds(
        Plan,
        begins_s=st.integers(0, 30),
        takes_s=st.integers(0, 25),
        cancelled_s=st.none() | st.integers(0, 50),
        goes_on_s=st.sampled_from([0, 0, 0, 3, 20]),
        fails=st.booleans(),
    ),
    max_size=8,
)


async def answer(plan: Plan) -> str:
    try:
        await asyncio.sleep(plan.takes_s + 0.5)
    except asyncio.CancelledError:
        if not plan.goes_on_s:
            raise
        await asyncio.sleep(plan.goes_on_s + 0.125)
    if plan.fails:
        raise ConnectionError("no route")
    return "answered"


def outcomes(plans: list[Plan], kept: Kept) -> list[tuple[str, float, int]]:
    """Return what came of each call and when, and how often its task was left asked to stop."""

    async def caller(plan: Plan) -> tuple[str, float, int]:
        task = asyncio.current_task()
        assert task is not None
        await asyncio.sleep(plan.begins_s)
        try:
            said = await kept(lambda: answer(plan))
        except (TimeoutError, ConnectionError, asyncio.CancelledError) as error:
            said = type(error).__name__
        return said, asyncio.get_running_loop().time(), task.cancelling()

    async def cancel(task: asyncio.Task[object], plan: Plan) -> None:
        if plan.cancelled_s is not None:
            await asyncio.sleep(plan.cancelled_s + 0.25)
            task.cancel()

    async def main() -> list[tuple[str, float, int]]:
        tasks = [asyncio.create_task(caller(plan)) for plan in plans]
        others = [asyncio.create_task(cancel(*pair)) for pair in zip(tasks, plans, strict=True)]
        found = []
        for task in tasks:
            try:
                found.append(await task)
            except asyncio.CancelledError:
                found.append(("never began", 0.0, 0))
        for other in others:
            other.cancel()
            with suppress(asyncio.CancelledError):
                await other
        return found

    return run_simulated(main())


async def with_a_timer_each(call: Call) -> str:
    async with asyncio.timeout(LIMIT_S):
        return await call()


@given(plans)
def test_calls_end_as_if_each_had_a_timer_of_its_own(plans: list[Plan]) -> None:
    limit = TimeLimit(timedelta(seconds=LIMIT_S))
    assert outcomes(plans, limit.keep) == outcomes(plans, with_a_timer_each)


def test_a_limit_outlives_the_loop_in_which_it_was_first_kept() -> None:
    limit = TimeLimit(timedelta(seconds=LIMIT_S))
    slow = Plan(begins_s=0, takes_s=20, cancelled_s=None, goes_on_s=0, fails=False)
    quick = Plan(begins_s=0, takes_s=1, cancelled_s=None, goes_on_s=0, fails=False)
    assert outcomes([quick], limit.keep) == [("answered", 1.5, 0)]
    assert outcomes([slow], limit.keep) == [("TimeoutError", LIMIT_S, 0)]
