"""Running a simulation."""

import pytest

from navarch.sim.clock import SimClock
from navarch.sim.running import run_simulated


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
