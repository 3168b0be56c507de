"""The temporary server of a scenario in real time starts slowly, or not at all."""

import pytest

from navarch.cli.errors import CommandError
from navarch.cli.sim_server import until_up
from navarch.core.errors import UnreachableError
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import run_simulated


class Starting:
    """A server that answers after a while, or has ended."""

    def __init__(self, *, answers_at_s: float, output: str | None = None) -> None:
        self.clock = SimClock()
        self.answers_at_s = answers_at_s
        self.output = output

    async def ask(self) -> None:
        if self.clock.monotonic() < self.answers_at_s:
            raise UnreachableError("connection refused")

    def wait(self) -> float:
        async def main() -> float:
            await until_up(self.ask, lambda: self.output, self.clock)
            return self.clock.monotonic()

        return run_simulated(main())


def test_a_server_that_takes_two_minutes_to_start_is_waited_for() -> None:
    assert 120 <= Starting(answers_at_s=120).wait() < 121


def test_a_server_that_never_answers_is_given_up() -> None:
    with pytest.raises(CommandError, match=r"^the control plane does not respond: connection ref"):
        Starting(answers_at_s=10_000).wait()


def test_the_output_of_a_server_that_ended_is_part_of_the_error() -> None:
    with pytest.raises(CommandError, match="did not start: Error: cannot listen"):
        Starting(answers_at_s=10, output="Error: cannot listen on 127.0.0.1:1").wait()
