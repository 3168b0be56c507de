"""Laws of rate limits: limits always hold, and no call waits without need."""

import asyncio
import itertools

from hypothesis import given
from hypothesis import strategies as st

from navarch.core.errors import TransientError
from navarch.providers.rate_limit import RateLimit, acquire
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop

CALL_S, LAUNCH_S = 1.0, 12.0
EXACT = 1e-6

Caller = tuple[float, bool, bool]
"""The time of a call, whether it is a launch, and whether it is cancelled while it waits."""

callers = st.lists(
    st.tuples(st.floats(0, 60, allow_nan=False), st.booleans(), st.booleans()), max_size=40
)


def play(arrivals: list[Caller]) -> tuple[list[tuple[float, bool]], int]:
    """Return the time and kind of each admitted call, and the number of refused ones."""
    through: list[tuple[float, bool]] = []
    refused = 0

    async def come(caller: Caller, clock: SimClock, calls: RateLimit, launches: RateLimit) -> None:
        nonlocal refused
        at, launch, gives_up = caller
        await clock.sleep(at)
        try:
            async with asyncio.timeout(0.25 if gives_up else None):
                await acquire(clock, *([calls, launches] if launch else [calls]))
        except TransientError:
            refused += 1
        except TimeoutError:
            pass
        else:
            through.append((clock.monotonic(), launch))

    async def main() -> None:
        clock = SimClock()
        calls = RateLimit(CALL_S, 15.0, "calls")
        launches = RateLimit(LAUNCH_S, 26.0, "launches")
        async with asyncio.TaskGroup() as tasks:
            for caller in arrivals:
                tasks.create_task(come(caller, clock, calls, launches))

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())
    return sorted(through), refused


def gaps(moments: list[float]) -> list[float]:
    return [later - sooner for sooner, later in itertools.pairwise(moments)]


@given(callers)
def test_calls_and_launches_are_never_closer_than_their_limits(arrivals: list[Caller]) -> None:
    through, _ = play(arrivals)
    assert all(gap >= CALL_S - EXACT for gap in gaps([at for at, _ in through]))
    assert all(gap >= LAUNCH_S - EXACT for gap in gaps([at for at, launch in through if launch]))


@given(st.lists(st.floats(0, 60, allow_nan=False), max_size=10))
def test_calls_below_the_limit_are_all_admitted(moments: list[float]) -> None:
    through, refused = play([(at, False, False) for at in moments])
    assert (len(through), refused) == (len(moments), 0)


@given(callers)
def test_no_call_waits_longer_than_its_limit(arrivals: list[Caller]) -> None:
    through, _ = play([(0.0, launch, gives_up) for _, launch, gives_up in arrivals])
    assert all(at <= (26.0 if launch else 15.0) + EXACT for at, launch in through)
