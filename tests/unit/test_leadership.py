"""A server leads, stands by, and stops when it was replaced, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from navarch.app.leadership import AGAIN_S, Leadership, acquire_leadership
from navarch.app.store_places import Means
from navarch.core.errors import InUseError, StoreAwayError, StoreError, SupersededError
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop

MEANS = Means(SimClock(), SeededEntropy("1"), InlineOffload())
LED: Any = object()


def on_virtual_time(story: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await story()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


class Taken:
    """A place that another server leads, and what each attempt to take over returns."""

    shown = "there"

    def __init__(self, *attempts: object) -> None:
        self.attempts = list(attempts)
        self.closed = False

    async def open(self, means: Means) -> Any:  # noqa: ANN401, ARG002
        raise InUseError("another server leads")

    def standby(self, means: Means) -> Any:  # noqa: ANN401, ARG002
        return self

    async def take_over(self) -> object:
        result = self.attempts.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    def close(self) -> None:
        self.closed = True


def test_a_standby_reports_once_and_tries_until_it_leads_also_while_its_database_is_away() -> None:
    away = StoreAwayError("connection refused")
    place: Any = Taken(None, away, away, None, away, LED)
    waits: list[str] = []

    async def story() -> None:
        assert await acquire_leadership(MEANS, place, waits.append) is LED
        assert asyncio.get_running_loop().time() == pytest.approx(3 * AGAIN_S)

    on_virtual_time(story)
    assert waits == ["there"]
    assert place.closed


@pytest.mark.parametrize("error", [StoreError("written by a newer navarch"), ValueError("bug")])
def test_a_standby_ends_with_an_error_that_does_not_pass(error: Exception) -> None:
    place: Any = Taken(None, error)

    async def story() -> None:
        with pytest.raises(type(error)):
            await acquire_leadership(MEANS, place, lambda _: None)

    on_virtual_time(story)
    assert place.closed


def test_a_server_that_does_not_stand_by_ends_at_once() -> None:
    place: Any = Taken()

    async def story() -> None:
        with pytest.raises(InUseError):
            await acquire_leadership(MEANS, place, None)

    on_virtual_time(story)


class Held:
    """A store whose leadership ends as the test needs."""

    hold_every = timedelta(seconds=1)

    def __init__(self) -> None:
        self.error: StoreError | None = None
        self.holds = 0

    async def hold(self) -> None:
        self.holds += 1
        if self.error is not None:
            raise self.error


def test_a_leader_waits_for_a_database_that_is_away_and_ends_when_it_was_replaced() -> None:
    async def story() -> None:
        store: Any = Held()
        clock = SimClock()
        keeping = asyncio.ensure_future(Leadership(clock, store).keep())
        await clock.sleep(9.5)
        assert store.holds == 10
        for error in (StoreAwayError("connection refused"), None):
            store.error = error
            await clock.sleep(1)
            assert not keeping.done()
        store.error = SupersededError("another server has taken over")
        await clock.sleep(1)
        assert keeping.done()
        with pytest.raises(SupersededError):
            await keeping

    on_virtual_time(story)


def test_a_store_that_nothing_can_take_away_is_not_held() -> None:
    async def story() -> None:
        store: Any = Held()
        store.hold_every = None
        with suppress(asyncio.CancelledError):
            await Leadership(SimClock(), store).keep()
        assert store.holds == 0

    on_virtual_time(story)
